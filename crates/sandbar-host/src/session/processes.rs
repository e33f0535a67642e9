//! Launching processes in a session, and what can be done with them.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use sandbar_core::{
    ByteCount, Error, ErrorCode, LogQuery, ProcessId, ProcessInfo, ProcessSpec, ProcessStatus, Replay, Result,
    SessionId, TerminalSize, WaitFor,
};

use super::{Attachment, Session, exec::ActiveCommand};
use crate::{
    Host,
    audit::note,
    host::Inner,
    process::{ExposedPort, Launch, Logs, Manner, Order, Process, ProcessLogs, Run, StopReason},
    state::SessionRecord,
    verb::{Call, Verb},
};

/// Processes that have exited are kept up to this number in a session; the oldest are forgotten beyond it.
const KEPT: usize = 100;

/// What is shown of the logs of a process that did not get ready.
const LINES_SHOWN: usize = 10;

/// Processes that are named when one is not found.
const NAMES_SHOWN: usize = 10;

impl Host {
    /// Starts a process and comes back at once: it is `starting`, and `running` when its probe has passed. It runs until
    /// it ends, is killed, or the session is rolled back, hibernated or destroyed; a fork of the session does not have
    /// it. It does not keep an idle session from being paused, and stands still with it.
    ///
    /// A program that cannot be started is an error, as with [`exec`](Self::exec), and leaves nothing.
    pub async fn launch_process(&self, id: &SessionId, spec: ProcessSpec) -> Result<ProcessInfo> {
        let target = id.clone();
        let call = launching(id, &spec);
        self.run(call, move |inner| Ok(inner.launch(&target, spec, Logs::new(), Custom::Stays)?.0)).await
    }

    /// As [`launch_process`](Self::launch_process), attached from its first byte, and closely: as long as the attachment is
    /// there, the process waits for it and it misses nothing. The process counts as a use of its session while it runs. Its
    /// first moment is not written down: a host that is killed in it does not know the process afterwards.
    pub async fn launch_attached(&self, id: &SessionId, spec: ProcessSpec) -> Result<(ProcessInfo, Attachment)> {
        let target = id.clone();
        let call = launching(id, &spec);
        self.run(call, move |inner| {
            let in_use = inner.session(&target)?.activity.hold();
            let logs = Logs::new();
            let reader = logs.read_closely(&Replay::All.query());
            let (info, process) = inner.launch(&target, spec, logs, Custom::ComesAndGoes)?;
            Ok((info.clone(), Attachment::new(info, Some((process, reader)), in_use)))
        })
        .await
    }

    /// The process this host has launched under this process id of the sandbox: the one that runs, or the last that did.
    pub async fn process_by_pid(&self, id: &SessionId, pid: u32) -> Result<LaunchedProcess> {
        self.launched(id, move |process| process.pid() == pid, move || format!("process {pid}")).await
    }

    /// The process this host has launched with this tag: the newest that runs, or the last that did.
    pub async fn process_by_tag(&self, id: &SessionId, tag: &str) -> Result<LaunchedProcess> {
        let (tag, named) = (tag.to_owned(), format!("process with the tag `{}`", tag.escape_debug()));
        self.launched(id, move |process| process.spec.tag.as_ref() == Some(&tag), move || named).await
    }

    /// The processes of a session that have not exited, oldest first, with what they were asked to be.
    pub async fn running_processes(&self, id: &SessionId) -> Result<Vec<LaunchedProcess>> {
        let target = id.clone();
        self.run(Call::on(id, Verb::ListProcesses), move |inner| {
            let session = inner.session_unused(&target)?;
            let running = session.processes.filter(|process| !process.has_exited());
            Ok(running.iter().map(|process| LaunchedProcess::of(process)).collect())
        })
        .await
    }

    async fn launched(
        &self,
        id: &SessionId,
        is_meant: impl Fn(&Process) -> bool + Send + 'static,
        name: impl FnOnce() -> String + Send + 'static,
    ) -> Result<LaunchedProcess> {
        let target = id.clone();
        self.run(Call::on(id, Verb::GetProcessStatus), move |inner| {
            let session = inner.session_unused(&target)?;
            let found = session.processes.latest(is_meant);
            found.map(|process| LaunchedProcess::of(&process)).ok_or_else(|| {
                Error::new(ErrorCode::ProcessNotFound, format!("session `{target}` has no {}", name()))
                    .with_hint("it never ran here, or ended so long ago that it is forgotten")
            })
        })
        .await
    }

    /// The processes of a session, oldest first, also those that have exited.
    pub async fn list_processes(&self, id: &SessionId) -> Result<Vec<ProcessInfo>> {
        let target = id.clone();
        self.run(Call::on(id, Verb::ListProcesses), move |inner| {
            let session = inner.session_unused(&target)?;
            inner.record(&target)?;
            inner.processes(&session)
        })
        .await
    }

    pub async fn get_process_status(&self, id: &SessionId, process: &ProcessId) -> Result<ProcessInfo> {
        let (target, process) = (id.clone(), process.clone());
        self.run(Call::on(id, Verb::GetProcessStatus), move |inner| {
            let session = inner.session_unused(&target)?;
            inner.record(&target)?;
            Ok(inner.find_process(&session, &process)?.info())
        })
        .await
    }

    /// Sends a signal: SIGKILL (9) ends everything the process has started, daemons too; any other goes to its process
    /// group. After SIGTERM (15), SIGINT, SIGQUIT or SIGKILL it is not started again. It comes back without waiting for
    /// the end. One that has exited is left as it is.
    pub async fn kill_process(&self, id: &SessionId, process: &ProcessId, signal: i32) -> Result<ProcessInfo> {
        let (target, process) = (id.clone(), process.clone());
        let call = on(id, Verb::KillProcess, &process).with("signal", signal);
        self.run(call, move |inner| {
            let found = inner.use_process(&target, &process)?;
            let Found::Ours(process) = &found else { return Ok(found.info()) };
            match process.orders.send(|done| Order::Signal { signal, done }) {
                Some(Err(error)) if error.code() != ErrorCode::ProcessNotFound => Err(error),
                _ => Ok(process.info()),
            }
        })
        .await
    }

    /// Waits until a process is ready, or has exited for good. Somebody who waits is a use of the session.
    ///
    /// `ProcessReadyTimeout` when it was stopped because it was not ready in time; `InvalidState` when it has exited and
    /// somebody wants it ready.
    pub async fn wait_process(&self, id: &SessionId, process: &ProcessId, what: WaitFor) -> Result<ProcessInfo> {
        let (target, process) = (id.clone(), process.clone());
        let (found, _in_use) = self
            .run(Call::on(id, Verb::WaitProcess), move |inner| {
                let session = inner.session(&target)?;
                inner.record(&target)?;
                Ok((inner.find_process(&session, &process)?, session.activity.hold()))
            })
            .await?;
        let info = match &found {
            Found::Past(info) => (**info).clone(),
            Found::Ours(process) => {
                let is_done = |info: &ProcessInfo| match what {
                    WaitFor::Ready => info.status != ProcessStatus::Starting,
                    WaitFor::Exited => info.status == ProcessStatus::Exited,
                };
                // It fails when the sender is gone, and we hold the sender.
                let _ = process.info.subscribe().wait_for(is_done).await;
                process.info()
            }
        };
        match what {
            WaitFor::Ready if info.status == ProcessStatus::Exited => Err(found.not_ready(&info)),
            _ => Ok(info),
        }
    }

    /// What a process has written: the end of each stream, kept in memory while its host runs.
    pub async fn process_logs(&self, id: &SessionId, process: &ProcessId, query: LogQuery) -> Result<ProcessLogs> {
        let (target, process) = (id.clone(), process.clone());
        self.run(Call::on(id, Verb::ProcessLogs), move |inner| {
            let session = inner.session_unused(&target)?;
            inner.record(&target)?;
            match inner.find_process(&session, &process)? {
                Found::Ours(process) => Ok(process.logs.read(&query)),
                Found::Past(info) => {
                    Err(Error::new(ErrorCode::InvalidState, format!("the logs of process `{}` are gone", info.id))
                        .with_hint("logs are kept in memory, and end with the host that ran the process"))
                }
            }
        })
        .await
    }

    /// Hands bytes to a process; waits while it is slow to read.
    pub async fn write_process_stdin(&self, id: &SessionId, process: &ProcessId, bytes: Bytes) -> Result<()> {
        let (target, process) = (id.clone(), process.clone());
        let call = on(id, Verb::WriteProcessStdin, &process).with("bytes", bytes.len());
        // Not inside the session: a process that does not read must not hold up a pause.
        let stdin = self.run(call, move |inner| inner.use_process(&target, &process)?.ours()?.stdin()).await?;
        stdin.write(bytes).await
    }

    /// Ends the input of a process.
    pub async fn close_process_stdin(&self, id: &SessionId, process: &ProcessId) -> Result<()> {
        let (target, process) = (id.clone(), process.clone());
        self.run(on(id, Verb::CloseProcessStdin, &process), move |inner| {
            inner.use_process(&target, &process)?.ours()?.stdin()?.close();
            Ok(())
        })
        .await
    }

    /// Changes the size of the terminal of a process.
    pub async fn resize_process(&self, id: &SessionId, process: &ProcessId, size: TerminalSize) -> Result<()> {
        let (target, process) = (id.clone(), process.clone());
        self.run(on(id, Verb::ResizeProcess, &process), move |inner| {
            let process = inner.use_process(&target, &process)?.ours()?;
            process.orders.send(|done| Order::Resize { size, done }).unwrap_or_else(|| Err(has_exited(&process.info())))
        })
        .await
    }
}

/// A process this host has launched: what was asked for, and what became of it.
#[derive(Clone, Debug)]
pub struct LaunchedProcess {
    /// The process id inside the sandbox that it has, or had last.
    pub pid: u32,
    pub spec: ProcessSpec,
    pub info: ProcessInfo,
}

impl LaunchedProcess {
    fn of(process: &Process) -> Self {
        Self { pid: process.pid(), spec: process.spec.clone(), info: process.info() }
    }
}

/// What becomes of a process, most likely.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Custom {
    /// It is written down at once.
    Stays,
    /// Most are gone before it would be worth it.
    ComesAndGoes,
}

/// What the audit log has of a launch.
fn launching(session: &SessionId, spec: &ProcessSpec) -> Call {
    let call = Call::on(session, Verb::LaunchProcess).with("argv", spec.argv.clone());
    spec.user.clone().into_iter().fold(call, |call, user| call.with("user", user))
}

fn on(session: &SessionId, verb: Verb, process: &ProcessId) -> Call {
    Call::on(session, verb).with("process", process.as_str())
}

/// A process somebody asked for.
pub(super) enum Found {
    Ours(Arc<Process>),
    /// An earlier host ran it.
    Past(Box<ProcessInfo>),
}

impl Found {
    fn info(&self) -> ProcessInfo {
        match self {
            Self::Ours(process) => process.info(),
            Self::Past(info) => (**info).clone(),
        }
    }

    fn ours(self) -> Result<Arc<Process>> {
        match self {
            Self::Ours(process) => Ok(process),
            Self::Past(info) => Err(has_exited(&info)),
        }
    }

    /// The error for one who wanted it ready.
    fn not_ready(&self, info: &ProcessInfo) -> Error {
        let is_late = info.exit.as_ref().is_some_and(|exit| exit.not_ready);
        let error = has_exited(info);
        let error =
            if is_late { Error::new(ErrorCode::ProcessReadyTimeout, error.message().to_owned()) } else { error };
        let shown = match self {
            Self::Ours(process) => process.logs.last_lines(LINES_SHOWN),
            Self::Past(_) => String::new(),
        };
        error.with_hint(if shown.is_empty() {
            "it wrote nothing".to_owned()
        } else {
            format!("the last it wrote was:\n{shown}")
        })
    }
}

fn has_exited(info: &ProcessInfo) -> Error {
    let how = info.exit.as_ref().map_or_else(|| "has exited".to_owned(), ToString::to_string);
    Error::new(ErrorCode::InvalidState, format!("process `{}` {how}", info.id))
}

impl Inner {
    fn launch(
        self: &Arc<Self>,
        id: &SessionId,
        spec: ProcessSpec,
        logs: Arc<Logs>,
        custom: Custom,
    ) -> Result<(ProcessInfo, Arc<Process>)> {
        spec.validate()?;
        self.runtime.admit(&spec.resources, None)?;
        let session = self.session(id)?;
        let _entry = session.gate.enter_shared()?;
        let record = self.active(id)?;
        let expose = |port| ExposedPort::open(&self.config.advertise_addr, port);
        let port = spec.expose_port.map(expose).transpose()?;
        let mut run = self.start_run(&session, &record, &spec)?;
        let info = ProcessInfo {
            id: ProcessId::random(),
            session: id.clone(),
            argv: spec.argv.clone(),
            status: ProcessStatus::Starting,
            pid: Some(run.command.pid),
            port: spec.expose_port,
            address: port.as_ref().map(|port| port.address.clone()),
            started: Timestamp::now(),
            ready_at: None,
            exit: None,
            restarts: 0,
        };
        let is_written = match custom {
            Custom::Stays => {
                self.forget_old_processes(&session);
                self.state.insert_process(&info, &spec)?;
                true
            }
            Custom::ComesAndGoes => {
                run.command.hold((ActiveCommand::count(&self.active_commands), session.activity.hold()));
                self.forget_processes(&session, &session.processes.keep(KEPT));
                false
            }
        };
        let launch = Launch {
            host: Arc::downgrade(self),
            session: Arc::clone(&session),
            spec,
            info: info.clone(),
            port,
            logs,
            is_written,
        };
        note("process", info.id.as_str());
        let process = session.processes.supervise(launch, run);
        // A host that began to stop meanwhile may have looked for its processes before this one was there.
        self.admit().inspect_err(|_| process.stop(StopReason::HostStopped, Manner::AtOnce))?;
        Ok((info, process))
    }

    /// Writes down a process that was not when it was launched.
    pub(crate) fn write_process_down(&self, session: &Session, process: &Process) -> Result<()> {
        self.forget_old_processes(session);
        self.state.insert_process(&process.info(), &process.spec)
    }

    /// Starts a process once more.
    pub(crate) fn start_again(&self, session: &Session, spec: &ProcessSpec) -> Result<Run> {
        let _entry = session.gate.enter_shared()?;
        let record = self.active(&session.id)?;
        self.start_run(session, &record, spec)
    }

    /// Starts a process in a session the caller has entered.
    fn start_run(&self, session: &Session, record: &SessionRecord, spec: &ProcessSpec) -> Result<Run> {
        let mut command = spec.command();
        command.env = self.environment(record, command.env)?;
        command.resources = command.resources.or(&record.resources).or(&self.config.default_resources);
        // What limits a command would end or silence something that is meant to go on.
        // Its own time is that of the session, which stands still with it; whoever supervises it looks at that clock.
        command.resources.wall_time = None;
        command.resources.output = Some(ByteCount(u64::MAX));
        let user = command.user.as_deref().map(|user| self.account(session, user)).transpose()?;
        let sandbox = session.sandbox(self, record)?;
        let command = sandbox.exec_as(command, user.as_ref())?;
        Ok(Run { command, sandbox })
    }

    /// What is known of the processes of a session, oldest first.
    fn processes(&self, session: &Session) -> Result<Vec<ProcessInfo>> {
        let ours = session.processes.filter(|_| true);
        let past = self.state.processes(&session.id)?.into_iter();
        let past = past.filter(|info| !ours.iter().any(|process| process.id == info.id));
        Ok(past.chain(ours.iter().map(|process| process.info())).collect())
    }

    pub(super) fn find_process(&self, session: &Session, id: &ProcessId) -> Result<Found> {
        if let Some(process) = session.processes.find(id) {
            return Ok(Found::Ours(process));
        }
        let stored = self.processes(session)?;
        let names: Vec<&str> = stored.iter().map(|info| info.id.as_str()).collect();
        let found = stored.iter().find(|info| info.id == *id);
        found.map(|info| Found::Past(Box::new(info.clone()))).ok_or_else(|| {
            let hint = match names.len() {
                0 => "it has none".to_owned(),
                count => {
                    let shown = names[count.saturating_sub(NAMES_SHOWN)..].join("`, `");
                    let which = if count > NAMES_SHOWN { "the last it had are" } else { "it has" };
                    format!("{which} `{shown}`")
                }
            };
            let what = format!("session `{}` has no process `{id}`", session.id);
            Error::new(ErrorCode::ProcessNotFound, what).with_field("process_id").with_hint(hint)
        })
    }

    /// A process of a session whose clock runs.
    fn use_process(&self, id: &SessionId, process: &ProcessId) -> Result<Found> {
        let session = self.session(id)?;
        let _entry = session.gate.enter_shared()?;
        self.active(id)?;
        self.find_process(&session, process)
    }

    /// Forgets processes beyond those that are kept, also such as earlier hosts ran.
    fn forget_old_processes(&self, session: &Session) {
        let known = self.processes(session).unwrap_or_else(|error| {
            tracing::warn!(session = %session.id, error = error.chain(), "could not find old processes");
            Vec::new()
        });
        let exited = known.into_iter().filter(|info| info.status == ProcessStatus::Exited);
        let mut old: Vec<ProcessId> = exited.map(|info| info.id).collect();
        old.truncate(old.len().saturating_sub(KEPT));
        self.forget_processes(session, &old);
        session.processes.forget(&old);
    }

    /// Has the state database forget these.
    fn forget_processes(&self, session: &Session, ids: &[ProcessId]) {
        if ids.is_empty() {
            return;
        }
        if let Err(error) = self.state.forget_processes(&session.id, ids) {
            tracing::warn!(session = %session.id, error = error.chain(), "could not forget old processes");
        }
    }
}
