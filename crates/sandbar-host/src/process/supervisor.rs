//! [`Supervisor`]: the task that owns one process.

use std::{
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sandbar_core::{
    Actor, AuditEntry, Error, ErrorCode, EventKind, ExecEvent, ExitStatus, LogStream, ProcessExit,
    ProcessInfo, ProcessSpec, ProcessStatus, Readiness, RestartPolicy, Result,
    signal::{SIGINT, SIGKILL, SIGQUIT, SIGTERM},
};
use sandbar_runtime::{RunningCommand, Sandbox, StdinHandle};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Clock, ExposedPort, Process, Processes, StopMode, StopReason,
    logs::Logs,
    orders::{Order, Orders},
    proxy::Proxy,
    readiness::{LogMatcher, Probe},
};
use crate::{blocking::blocking, engine::Engine, events::News, session::Session};

/// Age at which an ephemeral process is persisted. Most interactive commands exit earlier and never
/// touch the database.
const PERSIST_AFTER: Duration = Duration::from_secs(1);

/// Time after which a killed process is dead on every runtime.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Wait between two attempts to enter a session that an exclusive operation has closed.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// A started command, and the box it runs in.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) command: RunningCommand,
    pub(crate) sandbox: Arc<dyn Sandbox>,
}

/// Parameters of a supervisor. It holds neither the engine nor the session alive.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) engine: Weak<Engine>,
    pub(crate) session: Arc<Session>,
    pub(crate) spec: ProcessSpec,
    pub(crate) info: ProcessInfo,
    pub(crate) port: Option<ExposedPort>,
    pub(crate) logs: Arc<Logs>,
    /// Whether the state database has the process.
    pub(crate) is_persisted: bool,
}

impl Launch {
    pub(super) fn begin(self, processes: &Processes, run: Run) -> Arc<Process> {
        let Self {
            engine,
            session,
            spec,
            info,
            port,
            logs,
            is_persisted,
        } = self;
        let (order_sender, orders) = Orders::new();
        let process = Arc::new(Process {
            id: info.id.clone(),
            spec,
            pid: info.pid.unwrap_or_default().into(),
            timed_out: false.into(),
            is_persisted: is_persisted.into(),
            info: watch::Sender::new(info),
            logs,
            // Set before the process is returned, since its launcher may write at once.
            stdin: std::sync::Mutex::new(run.command.stdin()),
            orders: order_sender,
            clock: Arc::clone(&processes.clock),
            stop: watch::Sender::new(None),
        });
        let clock = Arc::clone(&processes.clock);
        let supervisor = Supervisor {
            engine,
            proxy: port.map(|port| port.serve(Arc::clone(&clock), Arc::clone(&session.activity))),
            session: Arc::downgrade(&session),
            stop: process.stop.subscribe(),
            process: Arc::clone(&process),
            clock,
            orders,
            was_killed: false,
        };
        let abandoned: CancellationToken = processes.abandoned.clone();
        processes.tasks.spawn(async move {
            tokio::select! {
                () = abandoned.cancelled() => {}
                () = supervisor.run(run) => {}
            }
        });
        process
    }
}

/// The owner of a process. Dropping it kills the process with everything it started.
struct Supervisor {
    engine: Weak<Engine>,
    session: Weak<Session>,
    process: Arc<Process>,
    clock: Arc<Clock>,
    proxy: Option<Proxy>,
    orders: mpsc::Receiver<Order>,
    stop: watch::Receiver<Option<(StopReason, StopMode)>>,
    /// A signal that asks for the end was sent to it.
    was_killed: bool,
}

impl Supervisor {
    async fn run(mut self, first: Run) {
        let mut exit = self.supervise(first).await;
        let mut ends_in_a_row = 0;
        while !self.is_to_end(&exit) {
            let restarts = self.process.info().restarts + 1;
            let last = exit.clone();
            self.publish(|info| {
                (info.status, info.pid, info.exit) = (ProcessStatus::Starting, None, Some(last));
            })
            .await;
            self.wait(RestartPolicy::back_off(ends_in_a_row)).await;
            let started = self.restart().await;
            let begun = Instant::now();
            exit = match started {
                // It was killed or stopped while it did not run.
                None => exit,
                Some(Ok(run)) => {
                    let pid = run.command.pid;
                    self.process.pid.store(pid, Ordering::Relaxed);
                    self.publish(|info| (info.pid, info.restarts) = (Some(pid), restarts))
                        .await;
                    self.supervise(run).await
                }
                Some(Err(error)) => {
                    self.publish(|info| info.restarts = restarts).await;
                    exited(
                        ExitStatus::default(),
                        Some(format!("could not be restarted: {}", error.chain())),
                    )
                }
            };
            ends_in_a_row = if begun.elapsed() < RestartPolicy::STABLE_AFTER {
                ends_in_a_row + 1
            } else {
                0
            };
        }
        if exit.reason.is_none() {
            exit.reason = self.requested_end();
        }
        self.finish(exit).await;
    }

    /// Whether the process must not be restarted.
    fn is_to_end(&self, exit: &ProcessExit) -> bool {
        let restarts = self.process.info().restarts;
        exit.not_ready
            || self.requested_end().is_some()
            || !self.process.spec.restart.allows(exit, restarts)
    }

    /// Returns why the process must end, if its end was requested.
    fn requested_end(&self) -> Option<String> {
        let stopped = self.stop.borrow().map(|(why, _)| why.to_string());
        stopped.or_else(|| self.was_killed.then(|| "killed".to_owned()))
    }

    /// Supervises one run until it has ended.
    async fn supervise(&mut self, run: Run) -> ProcessExit {
        let Run {
            mut command,
            sandbox,
        } = run;
        self.set_targets(command.stdin(), Some(&sandbox));
        let (clock, process) = (Arc::clone(&self.clock), Arc::clone(&self.process));
        let spec = &process.spec;
        let mut matcher = LogMatcher::of(&spec.ready);
        let probe = Probe::of(&spec.ready, spec.expose_port);
        let mut passes = std::pin::pin!(async {
            match &probe {
                Some(probe) => probe.passes(&sandbox, &clock).await,
                None => std::future::pending().await,
            }
        });
        let mut ready_timeout = std::pin::pin!(clock.sleep(spec.ready_timeout));
        let mut wall_time =
            std::pin::pin!(clock.sleep(spec.resources.wall_time.unwrap_or(Duration::MAX)));
        let mut persist_after = std::pin::pin!(tokio::time::sleep(PERSIST_AFTER));
        let mut is_starting = spec.ready != Readiness::None;
        // Set once it was killed: the deadline for lossless readers. The output left after it fits
        // into the logs.
        let mut readers_deadline = None;
        let mut not_ready = false;
        process.timed_out.store(false, Ordering::Relaxed);
        if !is_starting {
            self.publish(ready).await;
        }
        // So that a stop requested before this run is seen.
        self.stop.mark_changed();
        let status = loop {
            tokio::select! {
                biased;
                Ok(()) = self.stop.changed() => {
                    if let Some((_, mode)) = *self.stop.borrow_and_update() {
                        is_starting = false;
                        if mode == StopMode::Kill {
                            readers_deadline = Some(Instant::now());
                        }
                        stop(&command, mode);
                    }
                }
                Some(order) = self.orders.recv() => {
                    if matches!(order, Order::Signal { signal: SIGKILL, .. }) {
                        readers_deadline.get_or_insert_with(kill_deadline);
                    }
                    self.carry_out(order, Some(&command));
                }
                () = &mut wall_time, if !process.timed_out() => {
                    process.timed_out.store(true, Ordering::Relaxed);
                    readers_deadline.get_or_insert_with(kill_deadline);
                    command.kill();
                }
                () = &mut persist_after, if !process.is_persisted() => self.persist().await,
                () = &mut passes, if is_starting => {
                    is_starting = false;
                    self.publish(ready).await;
                }
                () = &mut ready_timeout, if is_starting => {
                    (is_starting, not_ready) = (false, true);
                    readers_deadline.get_or_insert_with(kill_deadline);
                    command.kill();
                }
                event = next_event(&mut command, &process.logs, readers_deadline) => {
                    let (stream, bytes) = match event {
                        Some(ExecEvent::Stdout(bytes)) => (LogStream::Stdout, bytes),
                        Some(ExecEvent::Stderr(bytes)) => (LogStream::Stderr, bytes),
                        Some(ExecEvent::Exited(status)) => break status,
                        None => break ExitStatus::default(),
                    };
                    self.process.logs.push(stream, &bytes);
                    if is_starting && matcher.as_mut().is_some_and(|matcher| matcher.matches(stream, &bytes)) {
                        is_starting = false;
                        self.publish(ready).await;
                    }
                }
            }
        };
        self.set_targets(None, None);
        let reason = self.reason(not_ready, sandbox.is_alive());
        ProcessExit {
            not_ready,
            ..exited(status, reason)
        }
    }

    /// Returns why a run was ended, if it did not exit by itself.
    fn reason(&self, not_ready: bool, box_lives: bool) -> Option<String> {
        let spec = &self.process.spec;
        let because = if not_ready {
            Some(format!(
                "stopped: not ready within {:?}",
                spec.ready_timeout
            ))
        } else if self.process.timed_out() {
            Some(format!(
                "stopped: exceeded its wall time of {:?}",
                spec.resources.wall_time.unwrap_or_default()
            ))
        } else {
            None
        };
        because
            .or_else(|| self.requested_end())
            .or_else(|| (!box_lives).then(|| "the box died".to_owned()))
    }

    /// Sets where input and connections go from now on.
    fn set_targets(&self, stdin: Option<StdinHandle>, sandbox: Option<&Arc<dyn Sandbox>>) {
        *self
            .process
            .stdin
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = stdin;
        if let Some(proxy) = &self.proxy {
            proxy.target.send_replace(sandbox.cloned());
        }
    }

    fn carry_out(&mut self, order: Order, command: Option<&RunningCommand>) {
        let (done, outcome) = match order {
            Order::Signal { signal, done } => {
                let outcome = match command {
                    Some(command) if signal == SIGKILL => {
                        command.kill();
                        Ok(())
                    }
                    Some(command) => command.signal(signal),
                    None if ends_process(signal) => Ok(()),
                    None => Err(self.not_running()),
                };
                // Also if it has just exited by itself: it must not be restarted.
                let is_delivered = outcome
                    .as_ref()
                    .err()
                    .is_none_or(|error| error.code() == ErrorCode::ProcessNotFound);
                self.was_killed |= is_delivered && ends_process(signal);
                (done, outcome)
            }
            Order::Resize { size, done } => (
                done,
                command.map_or_else(|| Err(self.not_running()), |command| command.resize(size)),
            ),
        };
        // Fails when the caller has gone away.
        let _ = done.send(outcome);
    }

    fn not_running(&self) -> Error {
        Error::new(
            ErrorCode::InvalidState,
            format!("process `{}` is not running now", self.process.id),
        )
        .with_hint("it waits for its restart; signal 15 or 9 ends it for good")
    }

    /// Waits between two runs, until `time` is over or the end is requested.
    async fn wait(&mut self, time: Duration) {
        let clock = Arc::clone(&self.clock);
        let mut over = std::pin::pin!(clock.sleep(time));
        while self.requested_end().is_none() {
            tokio::select! {
                biased;
                Ok(()) = self.stop.changed() => {}
                Some(order) = self.orders.recv() => self.carry_out(order, None),
                () = &mut over => return,
            }
        }
    }

    /// Restarts the process as soon as the session admits it. `None`: its end was requested.
    async fn restart(&mut self) -> Option<Result<Run>> {
        while self.requested_end().is_none() {
            let (engine, session, process) = (
                self.engine.upgrade()?,
                self.session.upgrade()?,
                Arc::clone(&self.process),
            );
            // Never cancelled half-way, so that every started process has an owner.
            let slots = Arc::clone(&session.slots);
            let restart = move || engine.restart_process(&session, &process.spec);
            match slots.start(restart).await {
                Err(error) if is_busy(&error) => self.wait(RETRY_DELAY).await,
                outcome => return Some(outcome),
            }
        }
        None
    }

    /// Closes the port and the logs, then publishes the exit.
    async fn finish(&mut self, exit: ProcessExit) {
        if let Some(proxy) = &self.proxy {
            proxy.close().await;
        }
        self.process.logs.close();
        self.publish(|info| {
            (info.status, info.pid, info.address, info.exit) =
                (ProcessStatus::Exited, None, None, Some(exit));
        })
        .await;
    }

    /// Writes the process to the state database.
    async fn persist(&self) {
        let (Some(engine), Some(session)) = (self.engine.upgrade(), self.session.upgrade()) else {
            return;
        };
        let process = Arc::clone(&self.process);
        // Not repeated after a failure: output and signals of the process wait for this.
        process.is_persisted.store(true, Ordering::Relaxed);
        if let Err(error) = blocking(move || engine.persist_process(&session, &process)).await {
            let process = &self.process.id;
            tracing::error!(%process, error = error.chain(), "could not persist a process");
        }
    }

    /// Writes a change to the state database, then notifies waiting callers and watchers.
    async fn publish(&mut self, change: impl FnOnce(&mut ProcessInfo)) {
        let mut info = self.process.info();
        change(&mut info);
        if let Some(engine) = self
            .engine
            .upgrade()
            .filter(|_| self.process.is_persisted())
        {
            let written = info.clone();
            if let Err(error) = blocking(move || engine.state.update_process(&written)).await {
                tracing::error!(process = %info.id, error = error.chain(), "could not persist the state of a process");
            }
        }
        let before = self.process.info.send_replace(info.clone());
        if let (Some(engine), Some(kind)) = (
            self.engine.upgrade(),
            event_kind(before.status, info.status),
        ) {
            let session = info.session.clone();
            let (actor, happening, outcome) = (Actor::host(), kind.into(), AuditEntry::OK);
            engine.send_event(News {
                session,
                actor,
                happening,
                outcome,
                detail: event_detail(&info),
            });
        }
    }
}

impl Drop for Supervisor {
    /// Publishes an exit if the task panicked, or was dropped by a host that was not shut down.
    fn drop(&mut self) {
        if self.process.has_exited() {
            return;
        }
        self.process.logs.close();
        self.process.info.send_modify(|info| {
            (info.status, info.pid, info.address) = (ProcessStatus::Exited, None, None);
            info.exit = Some(exited(
                ExitStatus::default(),
                Some("abandoned by its host".to_owned()),
            ));
        });
    }
}

/// Returns when a process killed now is dead. Until then it may write more output.
fn kill_deadline() -> Instant {
    Instant::now() + KILL_TIMEOUT
}

/// Returns the next event of a command, once every lossless reader has room for it or
/// `readers_deadline` has passed.
async fn next_event(
    command: &mut RunningCommand,
    logs: &Logs,
    readers_deadline: Option<Instant>,
) -> Option<ExecEvent> {
    match readers_deadline {
        None => logs.room().await,
        Some(deadline) => drop(tokio::time::timeout_at(deadline.into(), logs.room()).await),
    }
    command.next_event().await
}

/// Whether a process is not restarted after this signal, whatever its policy.
fn ends_process(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGQUIT | SIGKILL | SIGTERM)
}

fn stop(command: &RunningCommand, mode: StopMode) {
    match mode {
        StopMode::Kill => command.kill(),
        StopMode::Terminate => {
            if let Err(error) = command.signal(SIGTERM) {
                tracing::debug!(error = error.chain(), "could not send SIGTERM to a process");
            }
        }
    }
}

/// Whether an exclusive operation has closed the session for now.
fn is_busy(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::SessionPaused
            | ErrorCode::RollbackInProgress
            | ErrorCode::SessionDestroying
            | ErrorCode::ToolsInFlight
    )
}

/// Returns the event for a change of status, if it has one.
fn event_kind(before: ProcessStatus, now: ProcessStatus) -> Option<EventKind> {
    match now {
        ProcessStatus::Running if before != now => Some(EventKind::ProcessReady),
        ProcessStatus::Exited if before != now => Some(EventKind::ProcessExited),
        _ => None,
    }
}

/// Returns the details of an event about a process.
fn event_detail(info: &ProcessInfo) -> Map<String, Value> {
    let mut detail = Map::from_iter([("process".to_owned(), info.id.as_str().into())]);
    if let Some(exit) = info
        .exit
        .as_ref()
        .filter(|_| info.status == ProcessStatus::Exited)
    {
        let details = [
            ("code", exit.code.map(Value::from)),
            ("signal", exit.signal.map(Value::from)),
        ];
        let reason = ("reason", exit.reason.clone().map(Value::from));
        let known = details
            .into_iter()
            .chain([reason])
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        detail.extend(known);
    }
    detail
}

fn ready(info: &mut ProcessInfo) {
    (info.status, info.ready_at) = (ProcessStatus::Running, Some(Timestamp::now()));
}

fn exited(status: ExitStatus, reason: Option<String>) -> ProcessExit {
    let ExitStatus {
        code,
        signal,
        oom_killed,
        ..
    } = status;
    ProcessExit {
        code,
        signal,
        oom_killed,
        not_ready: false,
        reason,
        at: Timestamp::now(),
    }
}
