//! The task that owns one process.

use std::{
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sandbar_core::{
    Actor, AuditEntry, Error, ErrorCode, EventKind, ExecEvent, ExitStatus, LogStream, ProcessExit, ProcessInfo,
    ProcessSpec, ProcessStatus, Readiness, RestartPolicy, Result,
};
use sandbar_runtime::{RunningCommand, Sandbox, StdinHandle};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Clock, ExposedPort, Manner, Process, Processes, StopReason,
    logs::Logs,
    orders::{Order, Orders},
    proxy::Proxy,
    readiness::{LogMatcher, Probe},
};
use crate::{
    events::News,
    host::{Inner, blocking},
    session::Session,
};

/// One that is not written down at once is when it has lived so long: most that are launched by hand do not.
const A_WHILE: Duration = Duration::from_secs(1);

/// What was killed is dead after so long, everywhere.
const DYING: Duration = Duration::from_secs(1);

/// Between two tries to enter a session that is busy with something else.
const BREATH: Duration = Duration::from_millis(100);

const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// A process that runs, and the box it runs in.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) command: RunningCommand,
    pub(crate) sandbox: Arc<dyn Sandbox>,
}

/// What is needed to look after a process. The host and the session are not held: they may be dropped.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) host: Weak<Inner>,
    pub(crate) session: Arc<Session>,
    pub(crate) spec: ProcessSpec,
    pub(crate) info: ProcessInfo,
    pub(crate) port: Option<ExposedPort>,
    pub(crate) logs: Arc<Logs>,
    /// The state database has it.
    pub(crate) is_written: bool,
}

impl Launch {
    pub(super) fn begin(self, processes: &Processes, run: Run) -> Arc<Process> {
        let Self { host, session, spec, info, port, logs, is_written } = self;
        let (order_sender, orders) = Orders::new();
        let process = Arc::new(Process {
            id: info.id.clone(),
            spec,
            pid: info.pid.unwrap_or_default().into(),
            timed_out: false.into(),
            is_written: is_written.into(),
            info: watch::Sender::new(info),
            logs,
            // Before anybody knows the process: who launched it may write at once.
            stdin: std::sync::Mutex::new(run.command.stdin()),
            orders: order_sender,
            clock: Arc::clone(&processes.clock),
            stop: watch::Sender::new(None),
        });
        let clock = Arc::clone(&processes.clock);
        let supervisor = Supervisor {
            host,
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

/// The owner of a process. Dropping it ends the process with everything it started.
struct Supervisor {
    host: Weak<Inner>,
    session: Weak<Session>,
    process: Arc<Process>,
    clock: Arc<Clock>,
    proxy: Option<Proxy>,
    orders: mpsc::Receiver<Order>,
    stop: watch::Receiver<Option<(StopReason, Manner)>>,
    /// Somebody has asked for its end.
    was_killed: bool,
}

impl Supervisor {
    async fn run(mut self, first: Run) {
        let mut exit = self.one_run(first).await;
        let mut ends_in_a_row = 0;
        while !self.is_to_end(&exit) {
            let restarts = self.process.info().restarts + 1;
            let last = exit.clone();
            self.publish(|info| {
                (info.status, info.pid, info.exit) = (ProcessStatus::Starting, None, Some(last));
            })
            .await;
            self.wait(RestartPolicy::back_off(ends_in_a_row)).await;
            let started = self.start_again().await;
            let begun = Instant::now();
            exit = match started {
                // It was killed, or the session stops it, while it did not run.
                None => exit,
                Some(Ok(run)) => {
                    let pid = run.command.pid;
                    self.process.pid.store(pid, Ordering::Relaxed);
                    self.publish(|info| (info.pid, info.restarts) = (Some(pid), restarts)).await;
                    self.one_run(run).await
                }
                Some(Err(error)) => {
                    self.publish(|info| info.restarts = restarts).await;
                    exited(ExitStatus::default(), Some(format!("it could not be started again: {}", error.chain())))
                }
            };
            ends_in_a_row = if begun.elapsed() < RestartPolicy::STEADY { ends_in_a_row + 1 } else { 0 };
        }
        if exit.reason.is_none() {
            exit.reason = self.wish();
        }
        self.finish(exit).await;
    }

    /// Whether it is not started again.
    fn is_to_end(&self, exit: &ProcessExit) -> bool {
        let restarts = self.process.info().restarts;
        exit.not_ready || self.wish().is_some() || !self.process.spec.restart.allows(exit, restarts)
    }

    /// Why it is to end, when somebody has asked for that.
    fn wish(&self) -> Option<String> {
        let stopped = self.stop.borrow().map(|(why, _)| why.to_string());
        stopped.or_else(|| self.was_killed.then(|| "killed".to_owned()))
    }

    /// Looks after one run until it has ended.
    async fn one_run(&mut self, run: Run) -> ProcessExit {
        let Run { mut command, sandbox } = run;
        self.reach(command.stdin(), Some(&sandbox));
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
        let mut too_late = std::pin::pin!(clock.sleep(spec.ready_timeout));
        let mut time_is_up = std::pin::pin!(clock.sleep(spec.resources.wall_time.unwrap_or(Duration::MAX)));
        let mut lived_a_while = std::pin::pin!(tokio::time::sleep(A_WHILE));
        let mut is_waited_for = spec.ready != Readiness::None;
        // Once it was killed: until when those who read closely are waited for. What is left then is little, and fits into
        // the logs.
        let mut patience = None;
        let mut not_ready = false;
        process.timed_out.store(false, Ordering::Relaxed);
        if !is_waited_for {
            self.publish(ready).await;
        }
        // Seen also when it was asked for before this run.
        self.stop.mark_changed();
        let status = loop {
            tokio::select! {
                biased;
                Ok(()) = self.stop.changed() => {
                    if let Some((_, manner)) = *self.stop.borrow_and_update() {
                        is_waited_for = false;
                        if manner == Manner::AtOnce {
                            patience = Some(Instant::now());
                        }
                        end(&command, manner);
                    }
                }
                Some(order) = self.orders.recv() => {
                    if matches!(order, Order::Signal { signal: SIGKILL, .. }) {
                        patience.get_or_insert_with(death);
                    }
                    self.obey(order, Some(&command));
                }
                () = &mut time_is_up, if !process.timed_out() => {
                    process.timed_out.store(true, Ordering::Relaxed);
                    patience.get_or_insert_with(death);
                    command.kill();
                }
                () = &mut lived_a_while, if !process.is_written() => self.write_down().await,
                () = &mut passes, if is_waited_for => {
                    is_waited_for = false;
                    self.publish(ready).await;
                }
                () = &mut too_late, if is_waited_for => {
                    (is_waited_for, not_ready) = (false, true);
                    patience.get_or_insert_with(death);
                    command.kill();
                }
                event = next_event(&mut command, &process.logs, patience) => {
                    let (stream, bytes) = match event {
                        Some(ExecEvent::Stdout(bytes)) => (LogStream::Stdout, bytes),
                        Some(ExecEvent::Stderr(bytes)) => (LogStream::Stderr, bytes),
                        Some(ExecEvent::Exited(status)) => break status,
                        None => break ExitStatus::default(),
                    };
                    self.process.logs.push(stream, &bytes);
                    if is_waited_for && matcher.as_mut().is_some_and(|matcher| matcher.sees(stream, &bytes)) {
                        is_waited_for = false;
                        self.publish(ready).await;
                    }
                }
            }
        };
        self.reach(None, None);
        let reason = self.reason(not_ready, sandbox.is_alive());
        ProcessExit { not_ready, ..exited(status, reason) }
    }

    /// Why a run has ended, when it was not by itself.
    fn reason(&self, not_ready: bool, box_lives: bool) -> Option<String> {
        let spec = &self.process.spec;
        let because = if not_ready {
            Some(format!("stopped: it was not ready in {:?}", spec.ready_timeout))
        } else if self.process.timed_out() {
            Some(format!("stopped: its time of {:?} was up", spec.resources.wall_time.unwrap_or_default()))
        } else {
            None
        };
        because.or_else(|| self.wish()).or_else(|| (!box_lives).then(|| "the box died".to_owned()))
    }

    /// Where input and connections go from now on.
    fn reach(&self, stdin: Option<StdinHandle>, sandbox: Option<&Arc<dyn Sandbox>>) {
        *self.process.stdin.lock().unwrap_or_else(PoisonError::into_inner) = stdin;
        if let Some(proxy) = &self.proxy {
            proxy.target.send_replace(sandbox.cloned());
        }
    }

    fn obey(&mut self, order: Order, command: Option<&RunningCommand>) {
        let (done, outcome) = match order {
            Order::Signal { signal, done } => {
                let outcome = match command {
                    Some(command) if signal == SIGKILL => {
                        command.kill();
                        Ok(())
                    }
                    Some(command) => command.signal(signal),
                    None if asks_for_the_end(signal) => Ok(()),
                    None => Err(self.does_not_run()),
                };
                // Also when it has just ended by itself: it is not to be started again.
                let is_heard = outcome.as_ref().err().is_none_or(|error| error.code() == ErrorCode::ProcessNotFound);
                self.was_killed |= is_heard && asks_for_the_end(signal);
                (done, outcome)
            }
            Order::Resize { size, done } => {
                (done, command.map_or_else(|| Err(self.does_not_run()), |command| command.resize(size)))
            }
        };
        // Who asked may be gone.
        let _ = done.send(outcome);
    }

    fn does_not_run(&self) -> Error {
        Error::new(ErrorCode::InvalidState, format!("process `{}` does not run now", self.process.id))
            .with_hint("it waits to be started again; signal 15 or 9 ends it for good")
    }

    /// Waits while nothing runs, unless it is to end.
    async fn wait(&mut self, time: Duration) {
        let clock = Arc::clone(&self.clock);
        let mut time_is_up = std::pin::pin!(clock.sleep(time));
        while self.wish().is_none() {
            tokio::select! {
                biased;
                Ok(()) = self.stop.changed() => {}
                Some(order) = self.orders.recv() => self.obey(order, None),
                () = &mut time_is_up => return,
            }
        }
    }

    /// Starts it as soon as the session lets it. `None`: it is to end.
    async fn start_again(&mut self) -> Option<Result<Run>> {
        while self.wish().is_none() {
            let (host, session, process) = (self.host.upgrade()?, self.session.upgrade()?, Arc::clone(&self.process));
            // Not given up half-way, so that nothing is started that nobody owns.
            match blocking(move || host.start_again(&session, &process.spec)).await {
                Err(error) if is_busy(&error) => self.wait(BREATH).await,
                outcome => return Some(outcome),
            }
        }
        None
    }

    /// It is over: the port is closed, followers of its logs come to their end, then everybody is told.
    async fn finish(&mut self, exit: ProcessExit) {
        if let Some(proxy) = &self.proxy {
            proxy.close().await;
        }
        self.process.logs.close();
        self.publish(|info| {
            (info.status, info.pid, info.address, info.exit) = (ProcessStatus::Exited, None, None, Some(exit));
        })
        .await;
    }

    /// Has the state database know it from now on.
    async fn write_down(&self) {
        let (Some(host), Some(session)) = (self.host.upgrade(), self.session.upgrade()) else { return };
        let process = Arc::clone(&self.process);
        // Not tried again when it fails: whoever launched it waits for it here.
        process.is_written.store(true, Ordering::Relaxed);
        if let Err(error) = blocking(move || host.write_process_down(&session, &process)).await {
            let process = &self.process.id;
            tracing::error!(%process, error = error.chain(), "could not write down a process");
        }
    }

    /// Writes a change down, then tells everybody who waits.
    async fn publish(&mut self, change: impl FnOnce(&mut ProcessInfo)) {
        let mut info = self.process.info();
        change(&mut info);
        if let Some(host) = self.host.upgrade().filter(|_| self.process.is_written()) {
            let written = info.clone();
            if let Err(error) = blocking(move || host.state.update_process(&written)).await {
                tracing::error!(process = %info.id, error = error.chain(), "could not write down the state of a process");
            }
        }
        let before = self.process.info.send_replace(info.clone());
        if let (Some(host), Some(kind)) = (self.host.upgrade(), change_of_status(before.status, info.status)) {
            let session = info.session.clone();
            let (actor, happening, outcome) = (Actor::host(), kind.into(), AuditEntry::OK);
            host.tell_event(News { session, actor, happening, outcome, detail: told(&info) });
        }
    }
}

impl Drop for Supervisor {
    /// Only reached with something left to do when it panicked, or was dropped with its host.
    fn drop(&mut self) {
        if self.process.has_exited() {
            return;
        }
        self.process.logs.close();
        self.process.info.send_modify(|info| {
            (info.status, info.pid, info.address) = (ProcessStatus::Exited, None, None);
            info.exit = Some(exited(ExitStatus::default(), Some("the host let go of it".to_owned())));
        });
    }
}

/// When whatever is killed now is dead. Until then it may go on writing, if it is let.
fn death() -> Instant {
    Instant::now() + DYING
}

/// The next thing a command does, as soon as its close readers have room for it, or patience with them ends.
async fn next_event(command: &mut RunningCommand, logs: &Logs, patience: Option<Instant>) -> Option<ExecEvent> {
    match patience {
        None => logs.room().await,
        // Whoever has no room by then has to do with what is kept.
        Some(until) => drop(tokio::time::timeout_at(until.into(), logs.room()).await),
    }
    command.next_event().await
}

/// Signals after which a process is not started again, whatever its policy.
fn asks_for_the_end(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGQUIT | SIGKILL | SIGTERM)
}

fn end(command: &RunningCommand, manner: Manner) {
    match manner {
        Manner::AtOnce => command.kill(),
        Manner::Gently => {
            if let Err(error) = command.signal(SIGTERM) {
                tracing::debug!(error = error.chain(), "could not ask a process to end");
            }
        }
    }
}

/// Whether a session is only busy with something else.
fn is_busy(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::SessionPaused
            | ErrorCode::RollbackInProgress
            | ErrorCode::SessionDestroying
            | ErrorCode::ToolsInFlight
    )
}

/// What those who watch events are told, when it is something.
fn change_of_status(before: ProcessStatus, now: ProcessStatus) -> Option<EventKind> {
    match now {
        ProcessStatus::Running if before != now => Some(EventKind::ProcessReady),
        ProcessStatus::Exited if before != now => Some(EventKind::ProcessExited),
        _ => None,
    }
}

/// What they are told about a process.
fn told(info: &ProcessInfo) -> Map<String, Value> {
    let mut told = Map::from_iter([("process".to_owned(), info.id.as_str().into())]);
    if let Some(exit) = info.exit.as_ref().filter(|_| info.status == ProcessStatus::Exited) {
        let details = [("code", exit.code.map(Value::from)), ("signal", exit.signal.map(Value::from))];
        let reason = ("reason", exit.reason.clone().map(Value::from));
        let known = details.into_iter().chain([reason]).filter_map(|(key, value)| Some((key.to_owned(), value?)));
        told.extend(known);
    }
    told
}

fn ready(info: &mut ProcessInfo) {
    (info.status, info.ready_at) = (ProcessStatus::Running, Some(Timestamp::now()));
}

fn exited(status: ExitStatus, reason: Option<String>) -> ProcessExit {
    let ExitStatus { code, signal, oom_killed, .. } = status;
    ProcessExit { code, signal, oom_killed, not_ready: false, reason, at: Timestamp::now() }
}
