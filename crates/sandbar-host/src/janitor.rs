//! [`Janitor`]: the background task that destroys or pauses expired sessions, pauses idle ones,
//! repeats failed deletions, and prunes more snapshots when space runs out.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sandbar_core::{Actor, ErrorCode, OnExpiry, Result, SessionId, SessionState};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    actor::acting_as, audit::Event, blocking::blocking, engine::Engine, state::SessionRecord,
    verb::Verb,
};

/// Minimum time between two rounds.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Wait before the next attempt to pause an expired session that is still in use.
const RETRY_DELAY: Duration = Duration::from_secs(1);

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
            let mut tidied: Option<Instant> = None;
            loop {
                let host = Arc::clone(&engine);
                let next = blocking(move || sweep(&host))
                    .await
                    .unwrap_or_else(|error| {
                        tracing::warn!(error = error.chain(), "could not finish a janitor round");
                        interval
                    });
                if tidied.is_none_or(|tidied| tidied.elapsed() >= interval) {
                    tidied = Some(Instant::now());
                    let host = Arc::clone(&engine);
                    if let Err(error) = blocking(move || tidy(&host)).await {
                        tracing::warn!(error = error.chain(), "could not tidy up");
                    }
                }
                tokio::select! {
                    () = stopped.notified() => return,
                    () = engine.something_due.notified() => {}
                    () = tokio::time::sleep(next.clamp(MIN_INTERVAL, interval.max(MIN_INTERVAL))) => {}
                }
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

/// Destroys and pauses the sessions that are due; returns the time until the next one may be.
fn sweep(engine: &Arc<Engine>) -> Result<Duration> {
    let mut next = engine.config.health_check_interval;
    for session in engine.state.sessions()? {
        let (due, later) = what_is_due(engine, &session);
        match due {
            Some(Due::Destroy(why)) => destroy(engine, &session.id, why),
            // It has just been used.
            Some(Due::Pause) if !pause(engine, &session.id) => {
                next = next.min(session.idle_timeout.unwrap_or(next));
            }
            Some(Due::PauseExpired) if !pause_expired(engine, &session.id) => {
                next = next.min(RETRY_DELAY);
            }
            Some(Due::Pause | Due::PauseExpired) | None => {}
        }
        next = later.map_or(next, |later| next.min(later));
    }
    Ok(next)
}

/// Runs the tasks that are not urgent, once per health check interval. A failure of one does not
/// keep the others from running.
fn tidy(engine: &Arc<Engine>) -> Result<()> {
    let pressure = relieve_pressure(engine);
    let leftovers = engine.finish_leftovers();
    close_to_others(engine);
    pressure.and(leftovers).and(remove_old_logs(engine))
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

enum Due {
    Destroy(Why),
    /// It is idle.
    Pause,
    /// It has expired.
    PauseExpired,
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

fn destroy(engine: &Arc<Engine>, id: &SessionId, why: Why) {
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
        // Not in the audit log, which would grow with every round.
        Err(error) => {
            tracing::warn!(session = %id, error = error.chain(), "could not destroy a session");
        }
    }
}

/// Pauses an idle session. `false`: it is in use.
fn pause(engine: &Engine, id: &SessionId) -> bool {
    match engine.pause_when_idle(id) {
        Ok(true) => {
            tracing::info!(session = %id, "paused an idle session");
            engine.metrics.sessions_idle_paused.inc();
            engine.record_event(Event::of_verb(id, Verb::PauseSession).with("reason", "idle"));
            true
        }
        Ok(false) => false,
        Err(error) => {
            // Tried again in the next regular round.
            tracing::warn!(session = %id, error = error.chain(), "could not pause an idle session");
            true
        }
    }
}

/// Pauses an expired session. `false`: it has operations in progress.
fn pause_expired(engine: &Engine, id: &SessionId) -> bool {
    match engine.pause_when_expired(id) {
        Ok(true) => {
            tracing::info!(session = %id, "paused an expired session");
            engine.metrics.sessions_expired.inc();
            engine.record_event(Event::of_verb(id, Verb::PauseSession).with("reason", "expired"));
        }
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(session = %id, error = error.chain(), "could not pause an expired session");
            return error.code() != ErrorCode::ToolsInFlight;
        }
    }
    true
}

/// Prunes more snapshots while the pool is nearly full.
fn relieve_pressure(engine: &Engine) -> Result<()> {
    if engine.storage.space()?.used_share() < engine.config.pool_space_warn_threshold {
        return Ok(());
    }
    for session in engine.state.sessions()? {
        match engine.prune_harder(&session.id) {
            Ok(()) => {}
            // It is hibernated, gone, or closed by an exclusive operation; the next round follows.
            Err(error) if error.code() != ErrorCode::Internal => {}
            Err(error) => {
                tracing::warn!(session = %session.id, error = error.chain(), "could not prune");
            }
        }
    }
    Ok(())
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
