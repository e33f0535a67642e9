//! What happens by itself: sessions whose time is up are destroyed or paused, idle ones are paused, deletions that failed are tried
//! again, and snapshots are pruned harder when space runs out.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sandbar_core::{Actor, ErrorCode, OnExpiry, Result, SessionId, SessionState};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    actor::acting_as,
    audit::Event,
    host::{Inner, blocking},
    state::SessionRecord,
    verb::Verb,
};

/// The least time between two rounds.
const BREATH: Duration = Duration::from_millis(10);

/// How long whoever still works in a session whose time is up is left alone until the next attempt.
const PATIENCE: Duration = Duration::from_secs(1);

/// A task that wakes up when something is due, and now and then. It is stopped and joined before the host lets go.
#[derive(Debug)]
pub(crate) struct Janitor {
    stop: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Janitor {
    pub(crate) fn start(inner: Arc<Inner>) -> Self {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(acting_as(Actor::host(), async move {
            let interval = inner.config.health_check_interval;
            let mut tidied: Option<Instant> = None;
            loop {
                let host = Arc::clone(&inner);
                let next = blocking(move || sweep(&host)).await.unwrap_or_else(|error| {
                    tracing::warn!(error = error.chain(), "the janitor could not finish its round");
                    interval
                });
                if tidied.is_none_or(|tidied| tidied.elapsed() >= interval) {
                    tidied = Some(Instant::now());
                    let host = Arc::clone(&inner);
                    if let Err(error) = blocking(move || tidy(&host)).await {
                        tracing::warn!(error = error.chain(), "the janitor could not tidy up");
                    }
                }
                tokio::select! {
                    () = stopped.notified() => return,
                    () = inner.something_due.notified() => {}
                    () = tokio::time::sleep(next.clamp(BREATH, interval.max(BREATH))) => {}
                }
            }
        }));
        Self { stop, task: Mutex::new(Some(task)) }
    }

    pub(crate) async fn stop(&self) {
        self.stop.notify_one();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the janitor did not end well");
        }
    }
}

/// Does what is due, and says when the next thing may be.
fn sweep(inner: &Arc<Inner>) -> Result<Duration> {
    let mut next = inner.config.health_check_interval;
    for session in inner.state.sessions()? {
        let (due, later) = what_is_due(inner, &session);
        match due {
            Some(Due::Destroy(why)) => destroy(inner, &session.id, why),
            // Somebody came just now.
            Some(Due::Pause) if !pause(inner, &session.id) => next = next.min(session.idle_timeout.unwrap_or(next)),
            Some(Due::PauseExpired) if !pause_expired(inner, &session.id) => next = next.min(PATIENCE),
            Some(Due::Pause | Due::PauseExpired) | None => {}
        }
        next = later.map_or(next, |later| next.min(later));
    }
    Ok(next)
}

/// What need not be done at once, and is done as often as the health of the host is looked at. One part that fails does
/// not keep the others from being done.
fn tidy(inner: &Arc<Inner>) -> Result<()> {
    let pressure = relieve_pressure(inner);
    let leftovers = inner.finish_leftovers();
    pressure.and(leftovers).and(remove_old_logs(inner))
}

enum Due {
    Destroy(Why),
    /// Nobody used it.
    Pause,
    /// Its time is up.
    PauseExpired,
}

/// Why a session is destroyed by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Expired,
    HalfDestroyed,
}

/// What is to be done with a session now, or when it may be.
fn what_is_due(inner: &Inner, session: &SessionRecord) -> (Option<Due>, Option<Duration>) {
    if session.state == SessionState::Destroying {
        return (Some(Due::Destroy(Why::HalfDestroyed)), None);
    }
    let until_expiry = session.expires.map(|expires| Timestamp::now().duration_until(expires));
    if until_expiry.is_some_and(|left| !left.is_positive()) {
        return match session.on_expiry {
            OnExpiry::Destroy => (Some(Due::Destroy(Why::Expired)), None),
            OnExpiry::Pause | OnExpiry::PauseFiles => (Some(Due::PauseExpired), None),
        };
    }
    let until_expiry = until_expiry.and_then(|left| Duration::try_from(left).ok());
    let idle_limit = session.idle_timeout.filter(|_| session.state == SessionState::Active);
    let Some((limit, Ok(live))) = idle_limit.map(|limit| (limit, inner.session_unused(&session.id))) else {
        return (None, until_expiry);
    };
    let idle = live.activity.idle_for();
    if idle >= limit {
        return (Some(Due::Pause), until_expiry);
    }
    let until_idle = limit.saturating_sub(idle);
    (None, Some(until_expiry.map_or(until_idle, |left| left.min(until_idle))))
}

fn destroy(inner: &Arc<Inner>, id: &SessionId, why: Why) {
    match inner.destroy_when_due(id) {
        // Somebody else was quicker, or has given it more time.
        Ok(false) => {}
        Ok(true) => {
            let reason = match why {
                Why::Expired => "its time was up",
                Why::HalfDestroyed => "it was half destroyed",
            };
            tracing::info!(session = %id, reason, "destroyed");
            inner.metrics.sessions_expired.inc_by(u64::from(why == Why::Expired));
            inner.record_event(Event::of_verb(id, Verb::DestroySession).with("reason", reason));
        }
        // Only the log of the program tells of attempts that fail, or the audit log would grow with every round.
        Err(error) => tracing::warn!(session = %id, error = error.chain(), "could not destroy a session"),
    }
}

/// Pauses a session, unless somebody uses it.
fn pause(inner: &Inner, id: &SessionId) -> bool {
    match inner.pause_when_idle(id) {
        Ok(true) => {
            tracing::info!(session = %id, "paused: nobody used it");
            inner.metrics.sessions_idle_paused.inc();
            inner.record_event(Event::of_verb(id, Verb::PauseSession).with("reason", "nobody used it"));
            true
        }
        Ok(false) => false,
        Err(error) => {
            // Until the next round comes by itself.
            tracing::warn!(session = %id, error = error.chain(), "could not pause an idle session");
            true
        }
    }
}

/// Pauses a session whose time is up. `false`: somebody still works in it.
fn pause_expired(inner: &Inner, id: &SessionId) -> bool {
    match inner.pause_when_expired(id) {
        Ok(true) => {
            tracing::info!(session = %id, "paused: its time was up");
            inner.metrics.sessions_expired.inc();
            inner.record_event(Event::of_verb(id, Verb::PauseSession).with("reason", "its time was up"));
        }
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(session = %id, error = error.chain(), "could not pause a session whose time is up");
            return error.code() != ErrorCode::ToolsInFlight;
        }
    }
    true
}

/// Prunes harder while the pool is nearly full.
fn relieve_pressure(inner: &Inner) -> Result<()> {
    if inner.storage.space()?.used_share() < inner.config.pool_space_warn_threshold {
        return Ok(());
    }
    for session in inner.state.sessions()? {
        match inner.prune_harder(&session.id) {
            Ok(()) => {}
            // It is away, gone, or somebody works on it alone; the next round comes.
            Err(error) if error.code() != ErrorCode::Internal => {}
            Err(error) => tracing::warn!(session = %session.id, error = error.chain(), "could not prune"),
        }
    }
    Ok(())
}

/// Removes audit logs of sessions that are no more, when their time is over.
fn remove_old_logs(inner: &Inner) -> Result<()> {
    let retention = inner.config.audit_retention;
    // A time before all times is as good as for ever.
    let Some(before) = Timestamp::now().checked_sub(retention).ok().filter(|_| !retention.is_zero()) else {
        return Ok(());
    };
    let removed = inner.state.remove_old_audits(before)?;
    if removed > 0 {
        tracing::info!(removed, "removed audit logs of sessions that are no more");
    }
    Ok(())
}
