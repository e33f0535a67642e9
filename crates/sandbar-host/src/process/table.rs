//! The processes of one session.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, ProcessId, ProcessInfo, ProcessSpec, ProcessStatus, Result, StdinMode};
use sandbar_runtime::StdinHandle;
use tokio::sync::watch;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{Clock, Launch, Manner, Run, StopReason, logs::Logs, orders::Orders};
use crate::session::Session;

/// Logs of processes that have exited may take so much memory; those of the oldest are dropped beyond it.
const LOGS_OF_THE_DEAD: usize = 16 << 20;

/// The processes this host has launched in a session.
#[derive(Debug)]
pub(crate) struct Processes {
    /// Oldest first, also those that have exited.
    known: Mutex<Vec<Arc<Process>>>,
    /// Those that own the processes.
    pub(super) tasks: TaskTracker,
    pub(crate) clock: Arc<Clock>,
    /// Cancelled when the session is dropped by a host that was not shut down.
    pub(super) abandoned: CancellationToken,
    _abandon: DropGuard,
}

/// What is shared of one process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) spec: ProcessSpec,
    pub(crate) info: watch::Sender<ProcessInfo>,
    /// The process id it has, or had last.
    pub(super) pid: AtomicU32,
    /// Its time was up.
    pub(super) timed_out: AtomicBool,
    /// The state database has it.
    pub(super) is_written: AtomicBool,
    pub(crate) logs: Arc<Logs>,
    /// Feeds the present run.
    pub(super) stdin: Mutex<Option<StdinHandle>>,
    pub(crate) orders: Orders,
    /// The time of its session.
    pub(crate) clock: Arc<Clock>,
    /// Set when the session stops what runs in it.
    pub(super) stop: watch::Sender<Option<(StopReason, Manner)>>,
}

impl Default for Processes {
    fn default() -> Self {
        let abandoned = CancellationToken::new();
        let guard = abandoned.clone().drop_guard();
        Self { known: Mutex::default(), tasks: TaskTracker::new(), clock: Clock::new(), abandoned, _abandon: guard }
    }
}

impl Processes {
    /// Takes a process that was started: from here on a task of its own looks after it.
    pub(crate) fn supervise(&self, launch: Launch, run: Run) -> Arc<Process> {
        let process = launch.begin(self, run);
        self.lock().push(Arc::clone(&process));
        process
    }

    pub(crate) fn find(&self, id: &ProcessId) -> Option<Arc<Process>> {
        self.lock().iter().find(|process| process.id == *id).cloned()
    }

    /// The processes of which this is true, oldest first.
    pub(crate) fn filter(&self, is_meant: impl Fn(&Process) -> bool) -> Vec<Arc<Process>> {
        self.lock().iter().filter(|process| is_meant(process)).cloned().collect()
    }

    /// The process of which this is true: the newest of those that run, or else of all.
    pub(crate) fn latest(&self, is_meant: impl Fn(&Process) -> bool) -> Option<Arc<Process>> {
        let meant = self.filter(is_meant);
        let running = meant.iter().rev().find(|process| !process.has_exited());
        running.or(meant.last()).cloned()
    }

    /// Forgets the oldest processes that have exited beyond so many; returns those the state database has.
    pub(crate) fn keep(&self, most: usize) -> Vec<ProcessId> {
        let exited = self.filter(Process::has_exited);
        let old = &exited[..exited.len().saturating_sub(most)];
        self.forget(&old.iter().map(|process| process.id.clone()).collect::<Vec<_>>());
        old.iter().filter(|process| process.is_written()).map(|process| process.id.clone()).collect()
    }

    /// Whether a process that has not exited exposes this port.
    pub(crate) fn expose(&self, port: u16) -> bool {
        self.lock().iter().any(|process| !process.has_exited() && process.info().port == Some(port))
    }

    /// Forgets processes that have exited, and the logs of the oldest of the others.
    pub(crate) fn forget(&self, ids: &[ProcessId]) {
        let mut known = self.lock();
        known.retain(|process| !ids.contains(&process.id));
        let mut held = 0;
        for process in known.iter().rev().filter(|process| process.has_exited()) {
            held += process.logs.size();
            if held > LOGS_OF_THE_DEAD {
                process.logs.clear();
            }
        }
    }

    /// Whether there is one that has not exited for good.
    pub(crate) fn are_running(&self) -> bool {
        self.lock().iter().any(|process| !process.has_exited())
    }

    /// Has every process end. None is started again.
    pub(crate) fn stop(&self, why: StopReason, manner: Manner) {
        for process in self.lock().iter().filter(|process| !process.has_exited()) {
            process.stop(why, manner);
        }
    }

    /// Waits until every process has ended, on a thread that may block. No new one may come meanwhile.
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

impl Process {
    pub(crate) fn info(&self) -> ProcessInfo {
        self.info.borrow().clone()
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.info.borrow().status == ProcessStatus::Exited
    }

    /// The process id it has, or had last.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    pub(crate) fn timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }

    pub(super) fn is_written(&self) -> bool {
        self.is_written.load(Ordering::Relaxed)
    }

    pub(crate) fn takes_stdin(&self) -> bool {
        self.spec.stdin == StdinMode::Piped
    }

    /// Whether it ended, or is to end, because its session does not go on as it was.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.borrow().is_some()
    }

    pub(crate) fn stop(&self, why: StopReason, manner: Manner) {
        self.stop.send_replace(Some((why, manner)));
    }

    /// What feeds the process.
    pub(crate) fn stdin(&self) -> Result<StdinHandle> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(|| {
            Error::new(ErrorCode::InvalidState, format!("process `{}` takes no input", self.id))
                .with_hint("it has exited, waits to be started again, or was launched without `stdin`")
        })
    }
}

/// Asks the processes of sessions to end, and gives them some time. Those of a paused session cannot hear it.
pub(crate) fn stop_gently(sessions: &[Arc<Session>], why: StopReason, patience: Duration) {
    for session in sessions {
        session.processes.stop(why, Manner::Gently);
    }
    let awake = sessions.iter().filter(|session| !session.processes.clock.is_paused());
    let all = futures::future::join_all(awake.map(|session| session.processes.ended()));
    let ended = tokio::runtime::Handle::current().block_on(async { tokio::time::timeout(patience, all).await });
    if ended.is_err() {
        tracing::info!("some processes did not end when they were asked to; they are killed");
    }
}
