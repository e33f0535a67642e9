//! Attaching to a running process: its output, and its input.

use std::sync::Arc;

use bytes::Bytes;
use sandbar_core::{
    AttachEvent, LogChunk, LogStream, ProcessExit, ProcessId, ProcessInfo, ProcessStatus, Replay,
    Result, SessionId,
};

use super::{activity::InUse, processes::Found};
use crate::{
    Host,
    process::{Logs, Process, ProcessLogs},
    verb::{Call, Verb},
};

impl Host {
    /// Attaches to a process. Any number of attachments may exist at once, and dropping one leaves
    /// the process running. An attachment counts as a use of the session.
    pub async fn attach_process(
        &self,
        id: &SessionId,
        process: &ProcessId,
        replay: Replay,
    ) -> Result<Attachment> {
        self.attach(id, process, move |logs| logs.read(&replay.query()))
            .await
    }

    /// As [`attach_process`](Self::attach_process), with back-pressure: the attachment misses no
    /// output from now on, and unread output stops the process.
    pub async fn attach_lossless(
        &self,
        id: &SessionId,
        process: &ProcessId,
        replay: Replay,
    ) -> Result<Attachment> {
        self.attach(id, process, move |logs| logs.read_lossless(&replay.query()))
            .await
    }

    async fn attach(
        &self,
        id: &SessionId,
        process: &ProcessId,
        read: impl FnOnce(&Arc<Logs>) -> ProcessLogs + Send + 'static,
    ) -> Result<Attachment> {
        let (target, process) = (id.clone(), process.clone());
        let call = Call::on(id, Verb::AttachProcess).with("process", process.as_str());
        self.run(call, move |engine| {
            let session = engine.session(&target)?;
            engine.record(&target)?;
            let in_use = session.activity.hold();
            Ok(match engine.find_process(&session, &process)? {
                Found::Ours(process) => {
                    let logs = read(&process.logs);
                    Attachment::new(process.info(), Some((process, logs)), in_use)
                }
                Found::Past(info) => Attachment::new(*info, None, in_use),
            })
        })
        .await
    }
}

/// An attachment to a process. Dropping it leaves the process running.
#[derive(Debug)]
pub struct Attachment {
    info: ProcessInfo,
    /// `None` for a process of an earlier host, which has exited.
    running: Option<Running>,
    /// Output to return after the `Missed` event that precedes it.
    held_back: Option<AttachEvent>,
    is_over: bool,
    _in_use: InUse,
}

#[derive(Debug)]
struct Running {
    process: Arc<Process>,
    logs: ProcessLogs,
}

impl Attachment {
    pub(super) fn new(
        info: ProcessInfo,
        running: Option<(Arc<Process>, ProcessLogs)>,
        in_use: InUse,
    ) -> Self {
        let running = running.map(|(process, logs)| Running { process, logs });
        Self {
            info,
            running,
            held_back: None,
            is_over: false,
            _in_use: in_use,
        }
    }

    /// Returns the process as it was when attached.
    pub fn process(&self) -> &ProcessInfo {
        &self.info
    }

    pub fn has_terminal(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.process.spec.terminal.is_some())
    }

    /// Whether the process was killed because it exceeded its wall time.
    pub fn timed_out(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.process.timed_out())
    }

    /// Whether the process was stopped because its session was rolled back, hibernated or
    /// destroyed, or its host stopped.
    pub fn was_stopped(&self) -> bool {
        self.running
            .as_ref()
            .is_none_or(|running| running.process.is_stopped())
    }

    /// Waits until its session is paused.
    pub fn paused(&self) -> impl Future<Output = ()> + Send + 'static {
        let clock = self
            .running
            .as_ref()
            .map(|running| Arc::clone(&running.process.clock));
        async move {
            match clock {
                Some(clock) => clock.paused().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns the input of the process; `None` when it was launched without stdin.
    pub fn stdin(&self) -> Option<AttachedStdin> {
        let process = &self.running.as_ref()?.process;
        process.takes_stdin().then(|| AttachedStdin {
            process: Arc::clone(process),
        })
    }

    /// Returns the next event; `None` after the end. An attachment without back-pressure that is
    /// slow gets a `Missed` event with the number of bytes. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<AttachEvent> {
        if self.is_over {
            return None;
        }
        if let Some(event) = self.held_back.take() {
            return Some(event);
        }
        let info = match &mut self.running {
            None => self.info.clone(),
            Some(Running { process, logs }) => {
                if let Some(LogChunk {
                    stream,
                    missed,
                    bytes,
                    ..
                }) = logs.next().await
                {
                    let event = match stream {
                        LogStream::Stdout => AttachEvent::Stdout(bytes),
                        LogStream::Stderr => AttachEvent::Stderr(bytes),
                    };
                    if missed == 0 {
                        return Some(event);
                    }
                    self.held_back = Some(event);
                    return Some(AttachEvent::Missed {
                        stream,
                        bytes: missed,
                    });
                }
                // The logs close just before the exit is published. Cannot fail: `process` holds
                // the sender.
                let _ = process
                    .info
                    .subscribe()
                    .wait_for(|info| info.status == ProcessStatus::Exited)
                    .await;
                process.info()
            }
        };
        self.is_over = true;
        Some(AttachEvent::Exited(info.exit.unwrap_or(ProcessExit {
            code: None,
            signal: None,
            oom_killed: false,
            not_ready: false,
            reason: None,
            at: info.started,
        })))
    }
}

/// The input of a process, over restarts.
#[derive(Clone, Debug)]
pub struct AttachedStdin {
    process: Arc<Process>,
}

impl AttachedStdin {
    /// Writes bytes; waits while the process is slow to read. `InvalidState` when it has closed its
    /// input or is not running.
    pub async fn write(&self, bytes: Bytes) -> Result<()> {
        self.process.stdin()?.write(bytes).await
    }

    /// Closes the input of the current run, for every attachment.
    pub fn close(&self) {
        if let Ok(stdin) = self.process.stdin() {
            stdin.close();
        }
    }
}
