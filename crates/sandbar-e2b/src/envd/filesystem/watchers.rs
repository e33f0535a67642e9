//! Watchers that are polled.
//!
//! Each has a task that collects events. It ends when the watcher is removed, when it was not
//! polled for [`IDLE_TIMEOUT`], and with its sandbox.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use connectrpc::ConnectError;
use sandbar_core::{MutexExt as _, SessionId};
use sandbar_host::WatchPace;
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep_until, timeout},
};

use super::watch::{End, Watch};
use crate::generated::filesystem::FilesystemEvent;

/// Limit of collected events; beyond it the watcher fails.
const MAX_EVENTS: usize = 4096;

/// Limit of watchers per sandbox.
const MAX_WATCHERS: usize = 128;

/// Limit for waiting until the events of recent changes have arrived. SDKs poll right after a
/// change.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// A watcher that is not polled for this long is removed.
const IDLE_TIMEOUT: Duration = Duration::from_hours(1);

type Key = (SessionId, String);

#[derive(Debug, Default)]
pub(super) struct Watchers(Arc<Mutex<HashMap<Key, Arc<Collected>>>>);

/// Events a watcher has collected.
#[derive(Debug)]
struct Collected {
    state: Mutex<State>,
    pace: Arc<WatchPace>,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Debug)]
struct State {
    events: Vec<FilesystemEvent>,
    failure: Option<ConnectError>,
    polled: Instant,
}

impl Drop for Collected {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

impl Watchers {
    /// Adds a watch and returns its id for polling.
    pub(super) fn add(&self, session: &SessionId, watch: Watch) -> Result<String, ConnectError> {
        let mut watchers = lock(&self.0);
        if watchers.keys().filter(|(of, _)| of == session).count() >= MAX_WATCHERS {
            return Err(ConnectError::resource_exhausted(format!(
                "sandbox has {MAX_WATCHERS} watchers, which is the limit; stop some of them"
            )));
        }
        let id = format!("w{}", SessionId::random());
        let key = (session.clone(), id.clone());
        let state = State {
            events: Vec::new(),
            failure: None,
            polled: Instant::now(),
        };
        let collected = Arc::new(Collected {
            state: Mutex::new(state),
            pace: watch.pace(),
            task: Mutex::new(None),
        });
        let (collecting, idle) = (
            collect(watch, Arc::downgrade(&collected)),
            idle_timeout(Arc::downgrade(&collected)),
        );
        let (all, of) = (Arc::downgrade(&self.0), key.clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "aborted when its owner is dropped"
        )]
        let task = tokio::spawn(async move {
            let ended = async {
                if collecting.await == Outcome::Keep {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = ended => {}
                () = idle => {}
            }
            if let Some(all) = all.upgrade() {
                lock(&all).remove(&of);
            }
        });
        *lock(&collected.task) = Some(task.abort_handle());
        watchers.insert(key, collected);
        Ok(id)
    }

    /// Returns the events since the last poll.
    pub(super) async fn take(
        &self,
        session: &SessionId,
        id: &str,
    ) -> Result<Vec<FilesystemEvent>, ConnectError> {
        let collected = lock(&self.0)
            .get(&(session.clone(), id.to_owned()))
            .cloned()
            .ok_or_else(|| not_found(id))?;
        // After the timeout, returns what has arrived.
        let _ = timeout(CATCH_UP_TIMEOUT, collected.pace.catch_up()).await;
        let mut state = lock(&collected.state);
        state.polled = Instant::now();
        if let Some(failure) = &state.failure
            && state.events.is_empty()
        {
            return Err(failure.clone());
        }
        Ok(std::mem::take(&mut state.events))
    }

    pub(super) fn remove(&self, session: &SessionId, id: &str) -> Result<(), ConnectError> {
        lock(&self.0)
            .remove(&(session.clone(), id.to_owned()))
            .map(drop)
            .ok_or_else(|| not_found(id))
    }
}

/// Fate of a watcher whose task has ended: kept for polling, or removed.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Keep,
    Remove,
}

async fn collect(mut watch: Watch, collected: Weak<Collected>) -> Outcome {
    loop {
        let next = watch.next().await;
        let Some(collected) = collected.upgrade() else {
            return Outcome::Remove;
        };
        let mut state = lock(&collected.state);
        match next {
            Ok(event) if state.events.len() < MAX_EVENTS => state.events.push(event),
            Ok(_) => {
                let lost = format!(
                    "watcher error: more than {MAX_EVENTS} events were not polled; watch again"
                );
                state.failure = Some(ConnectError::internal(lost));
                return Outcome::Keep;
            }
            // No more events; those collected can still be polled.
            Err(End::Directory) => return Outcome::Keep,
            Err(End::Sandbox) => return Outcome::Remove,
            Err(End::Failed(error)) => {
                state.failure = Some(error);
                return Outcome::Keep;
            }
        }
    }
}

/// Resolves when the watcher was not polled for the idle timeout.
async fn idle_timeout(collected: Weak<Collected>) {
    loop {
        let Some(end) = collected
            .upgrade()
            .map(|collected| lock(&collected.state).polled + IDLE_TIMEOUT)
        else {
            return;
        };
        if end <= Instant::now() {
            return;
        }
        sleep_until(end).await;
    }
}

fn not_found(id: &str) -> ConnectError {
    ConnectError::not_found(format!("watcher with id {id} not found"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_unpoisoned()
}
