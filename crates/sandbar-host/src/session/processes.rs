//! Long-running processes of a session: launch, wait, signals, logs and input.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use sandbar_core::{
    Error, ErrorCode, LogQuery, ProcessId, ProcessInfo, ProcessSpec, ProcessStatus, Replay, Result,
    SessionId, TerminalSize, WaitFor,
};

use super::{Attachment, Session, exec::CommandLimits};
use crate::{
    Host,
    audit::note,
    engine::Engine,
    process::{ExposedPort, Launch, Logs, Order, Process, ProcessLogs, Run, StopMode, StopReason},
    verb::{Call, Verb},
};

/// Exited processes kept per session. Beyond it the oldest are forgotten.
const MAX_EXITED_PROCESSES: usize = 100;

/// Lines of its logs in the error about a process that did not become ready.
const MAX_LINES_SHOWN: usize = 10;

/// Ids listed in the error about an unknown process.
const MAX_IDS_SHOWN: usize = 10;

impl Host {
    /// Starts a process and returns at once: its status is `starting`, and `running` once its
    /// readiness probe passes. It runs until it exits, is killed, or the session is rolled back,
    /// hibernated or destroyed; forks do not have it. It does not keep an idle session from being
    /// paused, and is frozen with it.
    ///
    /// A program that cannot be started is an error, as with [`exec`](Self::exec), and leaves no
    /// process behind.
    pub async fn launch_process(&self, id: &SessionId, spec: ProcessSpec) -> Result<ProcessInfo> {
        let target = id.clone();
        let call = launching(id, &spec);
        self.run(call, move |engine| {
            Ok(engine
                .launch(&target, spec, Logs::new(), Persistence::Durable)?
                .0)
        })
        .await
    }

    /// As [`launch_process`](Self::launch_process), attached from its first byte with
    /// back-pressure: the attachment misses no output. The process counts as a use of its session
    /// while it runs. It is persisted only after it has run for a second; a host killed before that
    /// forgets it.
    pub async fn launch_attached(
        &self,
        id: &SessionId,
        spec: ProcessSpec,
    ) -> Result<(ProcessInfo, Attachment)> {
        let target = id.clone();
        let call = launching(id, &spec);
        self.run(call, move |engine| {
            let in_use = engine.session(&target)?.activity.hold();
            let logs = Logs::new();
            let reader = logs.read_lossless(&Replay::All.query());
            let (info, process) = engine.launch(&target, spec, logs, Persistence::Ephemeral)?;
            Ok((
                info.clone(),
                Attachment::new(info, Some((process, reader)), in_use),
            ))
        })
        .await
    }

    /// Finds the process with this process id in the sandbox: the one that runs, or the last that
    /// did.
    pub async fn process_by_pid(&self, id: &SessionId, pid: u32) -> Result<LaunchedProcess> {
        self.launched(
            id,
            move |process| process.pid() == pid,
            move || format!("process {pid}"),
        )
        .await
    }

    /// Finds the process with this tag: the newest that runs, or the last that did.
    pub async fn process_by_tag(&self, id: &SessionId, tag: &str) -> Result<LaunchedProcess> {
        let (tag, named) = (
            tag.to_owned(),
            format!("process with the tag `{}`", tag.escape_debug()),
        );
        self.launched(
            id,
            move |process| process.spec.tag.as_ref() == Some(&tag),
            move || named,
        )
        .await
    }

    /// Lists the processes of a session that have not exited, with their specs, oldest first.
    pub async fn running_processes(&self, id: &SessionId) -> Result<Vec<LaunchedProcess>> {
        let target = id.clone();
        self.run(Call::on(id, Verb::ListProcesses), move |engine| {
            let session = engine.session_unused(&target)?;
            let running = session.processes.filter(|process| !process.has_exited());
            Ok(running
                .iter()
                .map(|process| LaunchedProcess::of(process))
                .collect())
        })
        .await
    }

    async fn launched(
        &self,
        id: &SessionId,
        matches: impl Fn(&Process) -> bool + Send + 'static,
        name: impl FnOnce() -> String + Send + 'static,
    ) -> Result<LaunchedProcess> {
        let target = id.clone();
        self.run(Call::on(id, Verb::GetProcessStatus), move |engine| {
            let session = engine.session_unused(&target)?;
            let found = session.processes.latest(matches);
            found
                .map(|process| LaunchedProcess::of(&process))
                .ok_or_else(|| {
                    Error::new(
                        ErrorCode::ProcessNotFound,
                        format!("session `{target}` has no {}", name()),
                    )
                    .with_hint("it never ran on this host, or exited and was forgotten since")
                })
        })
        .await
    }

    /// Lists the processes of a session, exited ones included, oldest first.
    pub async fn list_processes(&self, id: &SessionId) -> Result<Vec<ProcessInfo>> {
        let target = id.clone();
        self.run(Call::on(id, Verb::ListProcesses), move |engine| {
            let session = engine.session_unused(&target)?;
            engine.record(&target)?;
            engine.processes(&session)
        })
        .await
    }

    pub async fn get_process_status(
        &self,
        id: &SessionId,
        process: &ProcessId,
    ) -> Result<ProcessInfo> {
        let (target, process) = (id.clone(), process.clone());
        self.run(Call::on(id, Verb::GetProcessStatus), move |engine| {
            let session = engine.session_unused(&target)?;
            engine.record(&target)?;
            Ok(engine.find_process(&session, &process)?.info())
        })
        .await
    }

    /// Sends a signal. SIGKILL (9) kills everything the process has started, daemons included; any
    /// other signal goes to its process group. After SIGTERM (15), SIGINT, SIGQUIT or SIGKILL it is
    /// not restarted. Does not wait for the exit; has no effect on an exited process.
    pub async fn kill_process(
        &self,
        id: &SessionId,
        process: &ProcessId,
        signal: i32,
    ) -> Result<ProcessInfo> {
        let (target, process) = (id.clone(), process.clone());
        let call = on(id, Verb::KillProcess, &process).with("signal", signal);
        self.run(call, move |engine| {
            let found = engine.use_process(&target, &process)?;
            let Found::Ours(process) = &found else {
                return Ok(found.info());
            };
            match process.orders.send(|done| Order::Signal { signal, done }) {
                Some(Err(error)) if error.code() != ErrorCode::ProcessNotFound => Err(error),
                _ => Ok(process.info()),
            }
        })
        .await
    }

    /// Waits until a process is ready, or has exited for good. Counts as a use of the session.
    ///
    /// Waiting for readiness fails with `ProcessReadyTimeout` if the process was stopped because it
    /// was not ready in time, and with `InvalidState` if it exited otherwise.
    pub async fn wait_process(
        &self,
        id: &SessionId,
        process: &ProcessId,
        what: WaitFor,
    ) -> Result<ProcessInfo> {
        let (target, process) = (id.clone(), process.clone());
        let (found, _in_use) = self
            .run(Call::on(id, Verb::WaitProcess), move |engine| {
                let session = engine.session(&target)?;
                engine.record(&target)?;
                Ok((
                    engine.find_process(&session, &process)?,
                    session.activity.hold(),
                ))
            })
            .await?;
        let info = match &found {
            Found::Past(info) => (**info).clone(),
            Found::Ours(process) => {
                let is_done = |info: &ProcessInfo| match what {
                    WaitFor::Ready => info.status != ProcessStatus::Starting,
                    WaitFor::Exited => info.status == ProcessStatus::Exited,
                };
                // Cannot fail: `process` holds the sender.
                let _ = process.info.subscribe().wait_for(is_done).await;
                process.info()
            }
        };
        match what {
            WaitFor::Ready if info.status == ProcessStatus::Exited => Err(found.not_ready(&info)),
            _ => Ok(info),
        }
    }

    /// Reads the output of a process: the end of each stream, kept in memory while its host runs.
    pub async fn process_logs(
        &self,
        id: &SessionId,
        process: &ProcessId,
        query: LogQuery,
    ) -> Result<ProcessLogs> {
        let (target, process) = (id.clone(), process.clone());
        self.run(Call::on(id, Verb::ProcessLogs), move |engine| {
            let session = engine.session_unused(&target)?;
            engine.record(&target)?;
            match engine.find_process(&session, &process)? {
                Found::Ours(process) => Ok(process.logs.read(&query)),
                Found::Past(info) => Err(Error::new(
                    ErrorCode::InvalidState,
                    format!("logs of process `{}` are gone", info.id),
                )
                .with_hint("logs are kept in memory until the host that ran the process stops")),
            }
        })
        .await
    }

    /// Writes bytes to the input of a process; waits while it is slow to read.
    pub async fn write_process_stdin(
        &self,
        id: &SessionId,
        process: &ProcessId,
        bytes: Bytes,
    ) -> Result<()> {
        let (target, process) = (id.clone(), process.clone());
        let call = on(id, Verb::WriteProcessStdin, &process).with("bytes", bytes.len());
        // Without an admission entry: a process that does not read must not block a pause.
        let stdin = self
            .run(call, move |engine| {
                engine.use_process(&target, &process)?.ours()?.stdin()
            })
            .await?;
        stdin.write(bytes).await
    }

    /// Closes the input of a process.
    pub async fn close_process_stdin(&self, id: &SessionId, process: &ProcessId) -> Result<()> {
        let (target, process) = (id.clone(), process.clone());
        self.run(on(id, Verb::CloseProcessStdin, &process), move |engine| {
            engine
                .use_process(&target, &process)?
                .ours()?
                .stdin()?
                .close();
            Ok(())
        })
        .await
    }

    /// Sets the terminal size of a process.
    pub async fn resize_process(
        &self,
        id: &SessionId,
        process: &ProcessId,
        size: TerminalSize,
    ) -> Result<()> {
        let (target, process) = (id.clone(), process.clone());
        self.run(on(id, Verb::ResizeProcess, &process), move |engine| {
            let process = engine.use_process(&target, &process)?.ours()?;
            process
                .orders
                .send(|done| Order::Resize { size, done })
                .unwrap_or_else(|| Err(has_exited(&process.info())))
        })
        .await
    }
}

/// A process that this host has launched, with its spec and current state.
#[derive(Clone, Debug)]
pub struct LaunchedProcess {
    /// Process id in the sandbox of the current or last run.
    pub pid: u32,
    pub spec: ProcessSpec,
    pub info: ProcessInfo,
}

impl LaunchedProcess {
    fn of(process: &Process) -> Self {
        Self {
            pid: process.pid(),
            spec: process.spec.clone(),
            info: process.info(),
        }
    }
}

/// When a process is written to the state database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Persistence {
    /// When it is launched.
    Durable,
    /// Once it has run for some time. Most interactive commands exit earlier and never touch the
    /// database.
    Ephemeral,
}

/// Returns the call of a launch, with the details for the audit log.
fn launching(session: &SessionId, spec: &ProcessSpec) -> Call {
    let call = Call::on(session, Verb::LaunchProcess).with("argv", spec.argv.clone());
    spec.user
        .clone()
        .into_iter()
        .fold(call, |call, user| call.with("user", user))
}

fn on(session: &SessionId, verb: Verb, process: &ProcessId) -> Call {
    Call::on(session, verb).with("process", process.as_str())
}

/// A process that was looked up.
pub(super) enum Found {
    Ours(Arc<Process>),
    /// A process of an earlier host.
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

    /// Returns the error for a caller that waited for readiness.
    fn not_ready(&self, info: &ProcessInfo) -> Error {
        let is_late = info.exit.as_ref().is_some_and(|exit| exit.not_ready);
        let error = has_exited(info);
        let error = if is_late {
            Error::new(ErrorCode::ProcessReadyTimeout, error.message().to_owned())
        } else {
            error
        };
        let shown = match self {
            Self::Ours(process) => process.logs.last_lines(MAX_LINES_SHOWN),
            Self::Past(_) => String::new(),
        };
        error.with_hint(if shown.is_empty() {
            "it wrote nothing".to_owned()
        } else {
            format!("its last output was:\n{shown}")
        })
    }
}

fn has_exited(info: &ProcessInfo) -> Error {
    let how = info
        .exit
        .as_ref()
        .map_or_else(|| "has exited".to_owned(), ToString::to_string);
    Error::new(
        ErrorCode::InvalidState,
        format!("process `{}` {how}", info.id),
    )
}

impl Engine {
    fn launch(
        self: &Arc<Self>,
        id: &SessionId,
        spec: ProcessSpec,
        logs: Arc<Logs>,
        persistence: Persistence,
    ) -> Result<(ProcessInfo, Arc<Process>)> {
        spec.validate()?;
        self.runtime.admit(&spec.resources, None)?;
        let session = self.session(id)?;
        let _entry = session.admission.enter_shared()?;
        let record = self.active(id)?;
        session.processes.require_room(id, &spec)?;
        let expose = |port| ExposedPort::open(&self.config.advertise_addr, port);
        let port = spec.expose_port.map(expose).transpose()?;
        let mut run = self.start_command(
            &session,
            &record,
            spec.command(),
            CommandLimits::LiftTimeAndOutput,
        )?;
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
        let is_persisted = match persistence {
            Persistence::Durable => {
                self.forget_old_processes(&session);
                self.state.insert_process(&info, &spec)?;
                true
            }
            Persistence::Ephemeral => {
                self.count_command(&session, &mut run.command);
                self.forget_processes(&session, &session.processes.keep(MAX_EXITED_PROCESSES));
                false
            }
        };
        let launch = Launch {
            engine: Arc::downgrade(self),
            session: Arc::clone(&session),
            spec,
            info: info.clone(),
            port,
            logs,
            is_persisted,
        };
        note("process", info.id.as_str());
        let process = session.processes.supervise(launch, run);
        // A host that began to stop meanwhile may have listed its processes before this one was
        // added.
        self.admit()
            .inspect_err(|_| process.stop(StopReason::HostStopped, StopMode::Kill))?;
        Ok((info, process))
    }

    /// Persists an ephemeral process.
    pub(crate) fn persist_process(&self, session: &Session, process: &Process) -> Result<()> {
        self.forget_old_processes(session);
        self.state.insert_process(&process.info(), &process.spec)
    }

    /// Restarts a process, for its supervisor.
    pub(crate) fn restart_process(&self, session: &Session, spec: &ProcessSpec) -> Result<Run> {
        let _entry = session.admission.enter_shared()?;
        let record = self.active(&session.id)?;
        self.start_command(
            session,
            &record,
            spec.command(),
            CommandLimits::LiftTimeAndOutput,
        )
    }

    /// Lists the processes of a session from memory and database, oldest first.
    fn processes(&self, session: &Session) -> Result<Vec<ProcessInfo>> {
        let ours = session.processes.filter(|_| true);
        let past = self.state.processes(&session.id)?.into_iter();
        let past = past.filter(|info| !ours.iter().any(|process| process.id == info.id));
        Ok(past
            .chain(ours.iter().map(|process| process.info()))
            .collect())
    }

    pub(super) fn find_process(&self, session: &Session, id: &ProcessId) -> Result<Found> {
        if let Some(process) = session.processes.find(id) {
            return Ok(Found::Ours(process));
        }
        let stored = self.processes(session)?;
        let names: Vec<&str> = stored.iter().map(|info| info.id.as_str()).collect();
        let found = stored.iter().find(|info| info.id == *id);
        found
            .map(|info| Found::Past(Box::new(info.clone())))
            .ok_or_else(|| {
                let hint = match names.len() {
                    0 => "it has none".to_owned(),
                    count => {
                        let shown = names[count.saturating_sub(MAX_IDS_SHOWN)..].join("`, `");
                        let which = if count > MAX_IDS_SHOWN {
                            "its last ones are"
                        } else {
                            "it has"
                        };
                        format!("{which} `{shown}`")
                    }
                };
                let what = format!("session `{}` has no process `{id}`", session.id);
                Error::new(ErrorCode::ProcessNotFound, what)
                    .with_field("process_id")
                    .with_hint(hint)
            })
    }

    /// Returns a process of an active session.
    fn use_process(&self, id: &SessionId, process: &ProcessId) -> Result<Found> {
        let session = self.session(id)?;
        let _entry = session.admission.enter_shared()?;
        self.active(id)?;
        self.find_process(&session, process)
    }

    /// Forgets exited processes beyond the limit, those of earlier hosts included.
    fn forget_old_processes(&self, session: &Session) {
        let known = self.processes(session).unwrap_or_else(|error| {
            tracing::warn!(session = %session.id, error = error.chain(), "could not list old processes");
            Vec::new()
        });
        let exited = known
            .into_iter()
            .filter(|info| info.status == ProcessStatus::Exited);
        let mut old: Vec<ProcessId> = exited.map(|info| info.id).collect();
        old.truncate(old.len().saturating_sub(MAX_EXITED_PROCESSES));
        self.forget_processes(session, &old);
        session.processes.forget(&old);
    }

    /// Deletes these processes from the state database.
    fn forget_processes(&self, session: &Session, ids: &[ProcessId]) {
        if ids.is_empty() {
            return;
        }
        if let Err(error) = self.state.forget_processes(&session.id, ids) {
            tracing::warn!(session = %session.id, error = error.chain(), "could not delete old processes");
        }
    }
}
