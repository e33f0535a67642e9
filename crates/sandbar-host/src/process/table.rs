//! [`Processes`]: the processes of one session.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use sandbar_core::{
    Error, ErrorCode, ProcessId, ProcessInfo, ProcessSpec, ProcessStatus, Result, SessionId,
    StdinMode,
};
use sandbar_runtime::StdinHandle;
use tokio::sync::watch;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    Clock, Launch, Run, StopMode, StopReason,
    logs::{Logs, MIN_RING_BYTES, RING_BYTES},
    orders::Orders,
};
use crate::session::Session;

/// Memory for the logs of exited processes of one session. Beyond it the oldest logs are dropped.
const MAX_EXITED_LOG_BYTES: usize = 16 << 20;

/// Memory for the logs of processes of one session that run. Each has the same part.
const MAX_RUNNING_LOG_BYTES: usize = 48 << 20;

/// Processes of one session that have not exited, those that wait for a restart included.
const MAX_PROCESSES: usize = 1024;

/// Processes of one session that have not exited and expose a port.
const MAX_EXPOSED_PORTS: usize = 64;

/// The processes this host has launched in a session.
#[derive(Debug)]
pub(crate) struct Processes {
    /// Oldest first, including exited ones.
    known: Mutex<Vec<Arc<Process>>>,
    /// The supervisors.
    pub(super) tasks: TaskTracker,
    pub(crate) clock: Arc<Clock>,
    /// Cancelled when the session is dropped by a host that was not shut down.
    pub(super) abandoned: CancellationToken,
    _abandon: DropGuard,
}

/// The shared state of one process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) spec: ProcessSpec,
    pub(crate) info: watch::Sender<ProcessInfo>,
    /// Process id of the current or last run.
    pub(super) pid: AtomicU32,
    /// Whether it exceeded its wall time.
    pub(super) timed_out: AtomicBool,
    /// Whether the state database has it.
    pub(super) is_persisted: AtomicBool,
    pub(crate) logs: Arc<Logs>,
    /// Standard input of the current run.
    pub(super) stdin: Mutex<Option<StdinHandle>>,
    pub(crate) orders: Orders,
    /// The clock of its session.
    pub(crate) clock: Arc<Clock>,
    /// Set when the session stops its processes.
    pub(super) stop: watch::Sender<Option<(StopReason, StopMode)>>,
}

impl Default for Processes {
    fn default() -> Self {
        let abandoned = CancellationToken::new();
        let guard = abandoned.clone().drop_guard();
        Self {
            known: Mutex::default(),
            tasks: TaskTracker::new(),
            clock: Clock::new(),
            abandoned,
            _abandon: guard,
        }
    }
}

impl Processes {
    /// Spawns the supervisor of a started process.
    pub(crate) fn supervise(&self, launch: Launch, run: Run) -> Arc<Process> {
        let process = launch.begin(self, run);
        let mut known = self.lock();
        known.push(Arc::clone(&process));
        share_log_memory(&known);
        process
    }

    /// Refuses a process beyond the limits of a session.
    pub(crate) fn require_room(&self, session: &SessionId, spec: &ProcessSpec) -> Result<()> {
        let known = self.lock();
        let running = known.iter().filter(|process| !process.has_exited());
        let exposing = running
            .clone()
            .filter(|process| process.spec.expose_port.is_some());
        let (what, limit) = if running.clone().count() >= MAX_PROCESSES {
            ("processes", MAX_PROCESSES)
        } else if spec.expose_port.is_some() && exposing.count() >= MAX_EXPOSED_PORTS {
            ("exposed ports", MAX_EXPOSED_PORTS)
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorCode::TooManyCalls,
            format!("session `{session}` has reached its limit of {limit} {what}"),
        )
        .with_hint("kill processes that are not needed"))
    }

    pub(crate) fn find(&self, id: &ProcessId) -> Option<Arc<Process>> {
        self.lock()
            .iter()
            .find(|process| process.id == *id)
            .cloned()
    }

    /// Returns the matching processes, oldest first.
    pub(crate) fn filter(&self, matches: impl Fn(&Process) -> bool) -> Vec<Arc<Process>> {
        self.lock()
            .iter()
            .filter(|process| matches(process))
            .cloned()
            .collect()
    }

    /// Returns the newest matching process that runs, or else the newest that matches.
    pub(crate) fn latest(&self, matches: impl Fn(&Process) -> bool) -> Option<Arc<Process>> {
        let found = self.filter(matches);
        let running = found.iter().rev().find(|process| !process.has_exited());
        running.or(found.last()).cloned()
    }

    /// Forgets the oldest exited processes beyond `limit`; returns those the state database has.
    pub(crate) fn keep(&self, limit: usize) -> Vec<ProcessId> {
        let exited = self.filter(Process::has_exited);
        let old = &exited[..exited.len().saturating_sub(limit)];
        self.forget(
            &old.iter()
                .map(|process| process.id.clone())
                .collect::<Vec<_>>(),
        );
        old.iter()
            .filter(|process| process.is_persisted())
            .map(|process| process.id.clone())
            .collect()
    }

    /// Whether a process that has not exited exposes this port.
    pub(crate) fn expose(&self, port: u16) -> bool {
        self.lock()
            .iter()
            .any(|process| !process.has_exited() && process.info().port == Some(port))
    }

    /// Forgets these processes, and the oldest logs of other exited ones beyond
    /// [`MAX_EXITED_LOG_BYTES`].
    pub(crate) fn forget(&self, ids: &[ProcessId]) {
        let mut known = self.lock();
        known.retain(|process| !ids.contains(&process.id));
        let mut held = 0;
        for process in known.iter().rev().filter(|process| process.has_exited()) {
            held += process.logs.size();
            if held > MAX_EXITED_LOG_BYTES {
                process.logs.clear();
            }
        }
        share_log_memory(&known);
    }

    /// Whether a process runs or waits for its restart.
    pub(crate) fn are_running(&self) -> bool {
        self.lock().iter().any(|process| !process.has_exited())
    }

    /// Stops every process. None is restarted.
    pub(crate) fn stop(&self, reason: StopReason, mode: StopMode) {
        for process in self.lock().iter().filter(|process| !process.has_exited()) {
            process.stop(reason, mode);
        }
    }

    /// Waits until every supervisor has ended; blocks the thread. The caller keeps new processes
    /// out.
    pub(crate) fn join(&self) {
        if !self.tasks.is_empty() {
            tokio::runtime::Handle::current().block_on(self.ended());
        }
    }

    async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Process>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Divides the memory for logs among the processes that run.
fn share_log_memory(known: &[Arc<Process>]) {
    let running = || known.iter().filter(|process| !process.has_exited());
    let capacity = ring_capacity(running().count());
    running().for_each(|process| process.logs.set_capacity(capacity));
}

/// Returns the capacity of each of the two rings of a process, when `running` processes run.
fn ring_capacity(running: usize) -> usize {
    (MAX_RUNNING_LOG_BYTES / 2 / running.max(1)).clamp(MIN_RING_BYTES, RING_BYTES)
}

impl Process {
    pub(crate) fn info(&self) -> ProcessInfo {
        self.info.borrow().clone()
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.info.borrow().status == ProcessStatus::Exited
    }

    /// Returns the process id of the current or last run.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    pub(crate) fn timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }

    pub(super) fn is_persisted(&self) -> bool {
        self.is_persisted.load(Ordering::Relaxed)
    }

    pub(crate) fn takes_stdin(&self) -> bool {
        self.spec.stdin == StdinMode::Piped
    }

    /// Whether its session or host has stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.borrow().is_some()
    }

    pub(crate) fn stop(&self, reason: StopReason, mode: StopMode) {
        self.stop.send_replace(Some((reason, mode)));
    }

    /// Returns the standard input of the current run.
    pub(crate) fn stdin(&self) -> Result<StdinHandle> {
        self.stdin
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .ok_or_else(|| {
                Error::new(
                    ErrorCode::InvalidState,
                    format!("process `{}` takes no input", self.id),
                )
                .with_hint("it has exited, waits for its restart, or was launched without `stdin`")
            })
    }
}

/// Sends SIGTERM to the processes of sessions and waits for them up to `timeout`. Does not wait for
/// paused sessions, whose frozen processes cannot react.
pub(crate) fn terminate(sessions: &[Arc<Session>], reason: StopReason, timeout: Duration) {
    for session in sessions {
        session.processes.stop(reason, StopMode::Terminate);
    }
    let active = sessions
        .iter()
        .filter(|session| !session.processes.clock.is_paused());
    let all = futures::future::join_all(active.map(|session| session.processes.ended()));
    let ended = tokio::runtime::Handle::current()
        .block_on(async { tokio::time::timeout(timeout, all).await });
    if ended.is_err() {
        tracing::info!("killing processes that did not end after SIGTERM");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_all_processes_together_are_bounded() {
        assert_eq!(ring_capacity(0), RING_BYTES);
        assert_eq!(ring_capacity(24), RING_BYTES);
        for running in [1, 25, 100, MAX_PROCESSES] {
            assert!(running * 2 * ring_capacity(running) <= MAX_RUNNING_LOG_BYTES);
        }
    }
}
