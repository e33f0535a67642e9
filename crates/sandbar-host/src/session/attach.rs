//! Talking with a process that runs already.

use std::sync::Arc;

use bytes::Bytes;
use sandbar_core::{
    AttachEvent, LogChunk, LogStream, ProcessExit, ProcessId, ProcessInfo, ProcessStatus, Replay, Result, SessionId,
};

use super::{activity::InUse, processes::Found};
use crate::{
    Host,
    process::{Logs, Process, ProcessLogs},
    verb::{Call, Verb},
};

impl Host {
    /// Attaches somebody to a process: what it writes, and its input. Any number may be attached at once, and who goes away
    /// leaves it running. Somebody who is attached is a use of the session.
    pub async fn attach_process(&self, id: &SessionId, process: &ProcessId, replay: Replay) -> Result<Attachment> {
        self.attach(id, process, move |logs| logs.read(&replay.query())).await
    }

    /// As [`attach_process`](Self::attach_process), and the process waits for who is attached: nothing that is written
    /// from now on is missed, and what is not read holds the process up.
    pub async fn attach_closely(&self, id: &SessionId, process: &ProcessId, replay: Replay) -> Result<Attachment> {
        self.attach(id, process, move |logs| logs.read_closely(&replay.query())).await
    }

    async fn attach(
        &self,
        id: &SessionId,
        process: &ProcessId,
        read: impl FnOnce(&Arc<Logs>) -> ProcessLogs + Send + 'static,
    ) -> Result<Attachment> {
        let (target, process) = (id.clone(), process.clone());
        let call = Call::on(id, Verb::AttachProcess).with("process", process.as_str());
        self.run(call, move |inner| {
            let session = inner.session(&target)?;
            inner.record(&target)?;
            let in_use = session.activity.hold();
            Ok(match inner.find_process(&session, &process)? {
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

/// Somebody who is attached to a process. Dropping it changes nothing for the process.
#[derive(Debug)]
pub struct Attachment {
    info: ProcessInfo,
    /// `None` when an earlier host ran it: it has exited.
    partner: Option<Partner>,
    /// Told after what was missed before it.
    held_back: Option<AttachEvent>,
    is_over: bool,
    _in_use: InUse,
}

#[derive(Debug)]
struct Partner {
    process: Arc<Process>,
    logs: ProcessLogs,
}

impl Attachment {
    pub(super) fn new(info: ProcessInfo, partner: Option<(Arc<Process>, ProcessLogs)>, in_use: InUse) -> Self {
        let partner = partner.map(|(process, logs)| Partner { process, logs });
        Self { info, partner, held_back: None, is_over: false, _in_use: in_use }
    }

    /// The process as it was found.
    pub fn process(&self) -> &ProcessInfo {
        &self.info
    }

    pub fn has_terminal(&self) -> bool {
        self.partner.as_ref().is_some_and(|partner| partner.process.spec.terminal.is_some())
    }

    /// Whether it was ended because its time was up.
    pub fn timed_out(&self) -> bool {
        self.partner.as_ref().is_some_and(|partner| partner.process.timed_out())
    }

    /// Whether it was ended because its session was rolled back, put away or destroyed, or its host stopped.
    pub fn was_stopped(&self) -> bool {
        self.partner.as_ref().is_none_or(|partner| partner.process.is_stopped())
    }

    /// Waits until its session is paused.
    pub fn paused(&self) -> impl Future<Output = ()> + Send + 'static {
        let clock = self.partner.as_ref().map(|partner| Arc::clone(&partner.process.clock));
        async move {
            match clock {
                Some(clock) => clock.paused().await,
                None => std::future::pending().await,
            }
        }
    }

    /// What feeds the process; `None` when it was launched without stdin.
    pub fn stdin(&self) -> Option<AttachedStdin> {
        let process = &self.partner.as_ref()?.process;
        process.takes_stdin().then(|| AttachedStdin { process: Arc::clone(process) })
    }

    /// The next thing that happens; `None` after the end. Who is slow, and not close, misses something, is told how much, and
    /// holds nobody up. Dropping the returned future loses nothing.
    pub async fn next_event(&mut self) -> Option<AttachEvent> {
        if self.is_over {
            return None;
        }
        if let Some(event) = self.held_back.take() {
            return Some(event);
        }
        let info = match &mut self.partner {
            None => self.info.clone(),
            Some(Partner { process, logs }) => {
                if let Some(LogChunk { stream, missed, bytes, .. }) = logs.next().await {
                    let event = match stream {
                        LogStream::Stdout => AttachEvent::Stdout(bytes),
                        LogStream::Stderr => AttachEvent::Stderr(bytes),
                    };
                    if missed == 0 {
                        return Some(event);
                    }
                    self.held_back = Some(event);
                    return Some(AttachEvent::Missed { stream, bytes: missed });
                }
                // The logs are closed just before everybody is told. It fails when the sender is gone, and we hold it.
                let _ = process.info.subscribe().wait_for(|info| info.status == ProcessStatus::Exited).await;
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

/// Feeds a process, whichever of its runs is the present one.
#[derive(Clone, Debug)]
pub struct AttachedStdin {
    process: Arc<Process>,
}

impl AttachedStdin {
    /// Hands bytes to the process; waits while it is slow to read. `InvalidState` when it reads no more, or does not run now.
    pub async fn write(&self, bytes: Bytes) -> Result<()> {
        self.process.stdin()?.write(bytes).await
    }

    /// Ends the input of the present run, for everybody.
    pub fn close(&self) {
        if let Ok(stdin) = self.process.stdin() {
            stdin.close();
        }
    }
}
