//! [`Janitor`]: the background task that destroys or pauses expired sessions, pauses idle ones,
//! repeats failed deletions, and prunes more snapshots when space runs out.
//!
//! Work on sessions runs side by side, each in a slot of its own. A session that cannot be
//! destroyed keeps one slot until the deadlines of that work pass, and delays no other.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sandbar_core::{Actor, ErrorCode, MutexExt as _, OnExpiry, Result, SessionId, SessionState};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::task::TaskTracker;

use crate::{
    actor::acting_as,
    audit::Event,
    audit_budget::Summaries,
    blocking::{blocking, waiting},
    engine::Engine,
    state::SessionRecord,
    verb::Verb,
};

/// Minimum time between two rounds.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Wait before the next attempt to pause an expired session that is still in use.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Wait before the next look at a session that was used when it was to be paused as idle.
const IDLE_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Sessions that are destroyed, paused or pruned at a time.
const MAX_CONCURRENT_WORK: usize = 32;

/// The janitor task. Runs a round when a session may be due, and at every health check interval.
/// Stopped and joined by [`Host::shutdown`](crate::Host::shutdown).
#[derive(Debug)]
pub(crate) struct Janitor {
    stop: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Janitor {
    pub(crate) fn start(engine: Arc<Engine>) -> Self {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        #[expect(clippy::disallowed_methods, reason = "joined by `Janitor::stop`")]
        let task = tokio::spawn(acting_as(Actor::host(), async move {
            let interval = engine.config.health_check_interval;
            let work = Arc::new(Work::default());
            let mut tidied: Option<Instant> = None;
            loop {
                let (host, known) = (Arc::clone(&engine), Arc::clone(&work));
                let next = match blocking(move || look(&host, &known)).await {
                    Ok(Round { due, next }) => {
                        for (session, due) in due {
                            Work::begin(&work, &engine, session, due);
                        }
                        next
                    }
                    Err(error) => {
                        tracing::warn!(error = error.chain(), "could not finish a janitor round");
                        interval
                    }
                };
                if tidied.is_none_or(|tidied| tidied.elapsed() >= interval) {
                    tidied = Some(Instant::now());
                    Work::tidy(&work, &engine);
                    let host = Arc::clone(&engine);
                    match blocking(move || sessions_to_prune(&host)).await {
                        Ok(sessions) => {
                            for session in sessions {
                                Work::begin(&work, &engine, session, Due::Prune);
                            }
                        }
                        Err(error) => {
                            tracing::warn!(error = error.chain(), "could not check the free space");
                        }
                    }
                }
                tokio::select! {
                    () = stopped.notified() => break,
                    () = engine.something_due.notified() => {}
                    () = work.retry.notified() => {}
                    () = tokio::time::sleep(next.clamp(MIN_INTERVAL, interval.max(MIN_INTERVAL))) => {}
                }
            }
            work.slots.close();
            work.tasks.close();
            let ended = timeout(engine.config.shutdown_timeout, work.tasks.wait());
            if ended.await.is_err() {
                tracing::warn!("stopping with work of the janitor in progress");
            }
        }));
        Self {
            stop,
            task: Mutex::new(Some(task)),
        }
    }

    pub(crate) async fn stop(&self) {
        self.stop.notify_one();
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "janitor panicked");
        }
    }
}

/// Work on sessions: in progress, waiting for a slot, or to be repeated later.
#[derive(Debug)]
struct Work {
    slots: Semaphore,
    tasks: TaskTracker,
    /// Signalled when work is to be repeated, so that the janitor computes its next round.
    retry: Notify,
    state: Mutex<WorkState>,
}

#[derive(Debug, Default)]
struct WorkState {
    /// Sessions that are worked on, or wait for a slot.
    busy: HashSet<SessionId>,
    /// Sessions that are left alone until then.
    later: HashMap<SessionId, Instant>,
    /// Whether [`tidy`] runs.
    is_tidying: bool,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            slots: Semaphore::new(MAX_CONCURRENT_WORK),
            tasks: TaskTracker::new(),
            retry: Notify::new(),
            state: Mutex::default(),
        }
    }
}

impl Work {
    /// Begins what is due for a session, unless it is worked on.
    fn begin(work: &Arc<Self>, engine: &Arc<Engine>, session: SessionId, due: Due) {
        if !work.state.lock_unpoisoned().busy.insert(session.clone()) {
            return;
        }
        let (own, engine) = (Arc::clone(work), Arc::clone(engine));
        work.tasks.spawn(acting_as(Actor::host(), async move {
            // Fails when the janitor stops; the next host finds the same due.
            let Ok(_slot) = own.slots.acquire().await else {
                return;
            };
            let target = session.clone();
            let outcome = waiting(move || Ok(carry_out(&engine, &target, due))).await;
            let retry = outcome.unwrap_or_else(|error| {
                tracing::error!(%session, error = error.chain(), "janitor work failed");
                Some(RETRY_DELAY)
            });
            let mut state = own.state.lock_unpoisoned();
            state.busy.remove(&session);
            if let Some(retry) = retry {
                state.later.insert(session, Instant::now() + retry);
                own.retry.notify_one();
            }
        }));
    }
}

impl Work {
    /// Begins [`tidy`], unless it runs.
    fn tidy(work: &Arc<Self>, engine: &Arc<Engine>) {
        if std::mem::replace(&mut work.state.lock_unpoisoned().is_tidying, true) {
            return;
        }
        let (own, engine) = (Arc::clone(work), Arc::clone(engine));
        work.tasks.spawn(acting_as(Actor::host(), async move {
            if let Err(error) = waiting(move || tidy(&engine)).await {
                tracing::warn!(error = error.chain(), "could not tidy up");
            }
            own.state.lock_unpoisoned().is_tidying = false;
        }));
    }
}

/// Result of a round.
struct Round {
    due: Vec<(SessionId, Due)>,
    /// Time until something may be due.
    next: Duration,
}

/// Finds the sessions for which something is due.
fn look(engine: &Engine, work: &Work) -> Result<Round> {
    let mut round = Round {
        due: Vec::new(),
        next: engine.config.health_check_interval,
    };
    let sessions = engine.state.sessions()?;
    let now = Instant::now();
    let mut state = work.state.lock_unpoisoned();
    state.later.retain(|_, until| *until > now);
    for session in sessions {
        if let Some(until) = state.later.get(&session.id) {
            round.next = round.next.min(until.saturating_duration_since(now));
            continue;
        }
        if state.busy.contains(&session.id) {
            continue;
        }
        let (due, later) = what_is_due(engine, &session);
        round.next = later.map_or(round.next, |later| round.next.min(later));
        round.due.extend(due.map(|due| (session.id, due)));
    }
    Ok(round)
}

/// Does what is due for a session. Returns the time after which to look at the session again, if it
/// is not done.
fn carry_out(engine: &Arc<Engine>, session: &SessionId, due: Due) -> Option<Duration> {
    let interval = engine.config.health_check_interval;
    match due {
        Due::Destroy(why) => (!destroy(engine, session, why)).then_some(interval),
        Due::Pause => match pause(engine, session) {
            Ok(true) => None,
            Ok(false) => Some(IDLE_RETRY_DELAY),
            Err(_) => Some(interval),
        },
        Due::PauseExpired => match pause_expired(engine, session) {
            Ok(()) => None,
            Err(error) if error.code() == ErrorCode::ToolsInFlight => Some(RETRY_DELAY),
            Err(_) => Some(interval),
        },
        Due::Prune => {
            prune(engine, session);
            None
        }
    }
}

/// Runs the tasks that are not urgent, once per health check interval. A failure of one does not
/// keep the others from running.
fn tidy(engine: &Arc<Engine>) -> Result<()> {
    engine.write_audit_summaries(Summaries::Due);
    let leftovers = engine.finish_leftovers();
    close_to_others(engine);
    leftovers.and(remove_old_logs(engine))
}

/// Closes the data directory and the storage to other users again, if they were opened since the
/// host started.
fn close_to_others(engine: &Engine) {
    let closed = engine.directory.close_to_others();
    for outcome in [closed, engine.storage.close_to_others()] {
        if let Err(error) = outcome {
            tracing::error!(
                error = error.chain(),
                "could not close files of sessions to other users"
            );
        }
    }
}

#[derive(Clone, Copy)]
enum Due {
    Destroy(Why),
    /// It is idle.
    Pause,
    /// It has expired.
    PauseExpired,
    /// The pool is nearly full.
    Prune,
}

/// Reason for which the janitor destroys a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Expired,
    HalfDestroyed,
}

/// Returns what is due for a session, and the time until something may be.
fn what_is_due(engine: &Engine, session: &SessionRecord) -> (Option<Due>, Option<Duration>) {
    if session.state == SessionState::Destroying {
        return (Some(Due::Destroy(Why::HalfDestroyed)), None);
    }
    let until_expiry = session
        .expires
        .map(|expires| Timestamp::now().duration_until(expires));
    if until_expiry.is_some_and(|left| !left.is_positive()) {
        return match session.on_expiry {
            OnExpiry::Destroy => (Some(Due::Destroy(Why::Expired)), None),
            OnExpiry::Pause | OnExpiry::PauseFiles => (Some(Due::PauseExpired), None),
        };
    }
    let until_expiry = until_expiry.and_then(|left| Duration::try_from(left).ok());
    let idle_limit = session
        .idle_timeout
        .filter(|_| session.state == SessionState::Active);
    let Some((limit, Ok(live))) =
        idle_limit.map(|limit| (limit, engine.session_unused(&session.id)))
    else {
        return (None, until_expiry);
    };
    let idle = live.activity.idle_for();
    if idle >= limit {
        return (Some(Due::Pause), until_expiry);
    }
    let until_idle = limit.saturating_sub(idle);
    (
        None,
        Some(until_expiry.map_or(until_idle, |left| left.min(until_idle))),
    )
}

/// Destroys a session; returns whether nothing is left to do.
fn destroy(engine: &Arc<Engine>, id: &SessionId, why: Why) -> bool {
    match engine.destroy_when_due(id) {
        // Another caller has destroyed it, or has extended its expiry.
        Ok(false) => {}
        Ok(true) => {
            let reason = match why {
                Why::Expired => "expired",
                Why::HalfDestroyed => "an earlier destruction had failed",
            };
            tracing::info!(session = %id, reason, "destroyed a session");
            engine
                .metrics
                .sessions_expired
                .inc_by(u64::from(why == Why::Expired));
            engine.record_event(Event::of_verb(id, Verb::DestroySession).with("reason", reason));
        }
        Err(error) if error.code() == ErrorCode::SessionNotFound => {}
        // Not in the audit log, which would grow with every round.
        Err(error) => {
            tracing::warn!(session = %id, error = error.chain(), "could not destroy a session");
            return false;
        }
    }
    true
}

/// Pauses an idle session. `false`: it is in use.
fn pause(engine: &Engine, id: &SessionId) -> Result<bool> {
    match engine.pause_when_idle(id) {
        Ok(true) => {
            tracing::info!(session = %id, "paused an idle session");
            engine.metrics.sessions_idle_paused.inc();
            engine.record_event(Event::of_verb(id, Verb::PauseSession).with("reason", "idle"));
            Ok(true)
        }
        Ok(false) => Ok(false),
        Err(error) => {
            tracing::warn!(session = %id, error = error.chain(), "could not pause an idle session");
            Err(error)
        }
    }
}

/// Pauses an expired session. `ToolsInFlight`: it has operations in progress.
fn pause_expired(engine: &Engine, id: &SessionId) -> Result<()> {
    match engine.pause_when_expired(id) {
        Ok(true) => {
            tracing::info!(session = %id, "paused an expired session");
            engine.metrics.sessions_expired.inc();
            engine.record_event(Event::of_verb(id, Verb::PauseSession).with("reason", "expired"));
            Ok(())
        }
        Ok(false) => Ok(()),
        Err(error) => {
            tracing::warn!(session = %id, error = error.chain(), "could not pause an expired session");
            Err(error)
        }
    }
}

/// Returns the sessions to prune: all of them while the pool is nearly full.
fn sessions_to_prune(engine: &Engine) -> Result<Vec<SessionId>> {
    if engine.storage.space()?.used_share() < engine.config.pool_space_warn_threshold {
        return Ok(Vec::new());
    }
    let sessions = engine.state.sessions()?;
    Ok(sessions.into_iter().map(|session| session.id).collect())
}

/// Prunes more snapshots of a session.
fn prune(engine: &Engine, session: &SessionId) {
    match engine.prune_harder(session) {
        Ok(()) => {}
        // It is hibernated, gone, or closed by an exclusive operation; the next round follows.
        Err(error) if error.code() != ErrorCode::Internal => {}
        Err(error) => {
            tracing::warn!(%session, error = error.chain(), "could not prune");
        }
    }
}

/// Deletes audit logs of destroyed sessions after their retention.
fn remove_old_logs(engine: &Engine) -> Result<()> {
    let retention = engine.config.audit_retention;
    // A retention beyond the range of timestamps keeps logs for ever, as zero does.
    let Some(before) = Timestamp::now()
        .checked_sub(retention)
        .ok()
        .filter(|_| !retention.is_zero())
    else {
        return Ok(());
    };
    let removed = engine.state.remove_old_audits(before)?;
    if removed > 0 {
        tracing::info!(removed, "deleted audit logs of destroyed sessions");
    }
    Ok(())
}
