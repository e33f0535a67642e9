//! What happens by itself: sessions whose time is up are destroyed, deletions that failed are tried again.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use sandbar_core::{Result, SessionId, SessionState};
use tokio::{sync::Notify, task::JoinHandle};

use crate::host::{Inner, blocking};

/// A task that wakes up now and then. It is stopped and joined before the host lets go.
#[derive(Debug)]
pub(crate) struct Janitor {
    stop: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Janitor {
    pub(crate) fn start(inner: Arc<Inner>) -> Self {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut interval = tokio::time::interval(inner.config.health_check_interval);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = stopped.notified() => return,
                    _ = interval.tick() => {}
                }
                let host = Arc::clone(&inner);
                if let Err(error) = blocking(move || sweep(&host)).await {
                    tracing::warn!(error = error.chain(), "the janitor could not finish its round");
                }
            }
        });
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

/// Destroys what is due.
fn sweep(inner: &Arc<Inner>) -> Result<()> {
    let now = Timestamp::now();
    let due: Vec<SessionId> = inner
        .state
        .sessions()?
        .into_iter()
        .filter(|session| {
            session.state == SessionState::Destroying || session.expires.is_some_and(|expires| expires <= now)
        })
        .map(|session| session.id)
        .collect();
    for id in due {
        // One that somebody else destroys in this moment is gone all the same.
        match inner.destroy(&id) {
            Ok(()) => tracing::info!(session = %id, "destroyed: its time was up, or it was half destroyed"),
            Err(error) => tracing::warn!(session = %id, error = error.chain(), "could not destroy a session"),
        }
    }
    Ok(())
}
