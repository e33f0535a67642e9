//! Watchers for those who come and ask.
//!
//! Each has a task that gathers events; it ends when it is removed, when nobody has asked for long, and with its sandbox.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use connectrpc::ConnectError;
use sandbar_core::SessionId;
use sandbar_host::WatchPace;
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep_until, timeout},
};

use super::watch::{End, Watch};
use crate::generated::filesystem::FilesystemEvent;

/// Events that wait for somebody to ask. Who has more of them was not going to.
const MOST_EVENTS: usize = 16_384;

/// Watchers of one sandbox.
const MOST_WATCHERS: usize = 128;

/// How long who asks waits for what has just happened. SDKs ask right after they have changed something.
const CATCHING_UP: Duration = Duration::from_secs(2);

/// How long nobody may ask.
const PATIENCE: Duration = Duration::from_hours(1);

type Key = (SessionId, String);

#[derive(Debug, Default)]
pub(super) struct Watchers(Arc<Mutex<HashMap<Key, Arc<Gathered>>>>);

/// What a watcher has seen.
#[derive(Debug)]
struct Gathered {
    state: Mutex<State>,
    pace: Arc<WatchPace>,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Debug)]
struct State {
    events: Vec<FilesystemEvent>,
    failure: Option<ConnectError>,
    asked: Instant,
}

impl Drop for Gathered {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

impl Watchers {
    /// Keeps a watch going; its id is for whoever comes and asks.
    pub(super) fn add(&self, session: &SessionId, watch: Watch) -> Result<String, ConnectError> {
        let mut watchers = lock(&self.0);
        if watchers.keys().filter(|(of, _)| of == session).count() >= MOST_WATCHERS {
            return Err(ConnectError::resource_exhausted(format!(
                "a sandbox has at most {MOST_WATCHERS} watchers; stop some of them"
            )));
        }
        let id = format!("w{}", SessionId::random());
        let key = (session.clone(), id.clone());
        let state = State { events: Vec::new(), failure: None, asked: Instant::now() };
        let gathered = Arc::new(Gathered { state: Mutex::new(state), pace: watch.pace(), task: Mutex::new(None) });
        let (gather, idle) = (gather(watch, Arc::downgrade(&gathered)), nobody_asks(Arc::downgrade(&gathered)));
        let (all, of) = (Arc::downgrade(&self.0), key.clone());
        let task = tokio::spawn(async move {
            let ended = async {
                if gather.await == Outcome::Keep {
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
        *lock(&gathered.task) = Some(task.abort_handle());
        watchers.insert(key, gathered);
        Ok(id)
    }

    /// What was seen since somebody asked last.
    pub(super) async fn take(&self, session: &SessionId, id: &str) -> Result<Vec<FilesystemEvent>, ConnectError> {
        let gathered = lock(&self.0).get(&(session.clone(), id.to_owned())).cloned().ok_or_else(|| not_found(id))?;
        // What it has until then is told in any case.
        let _ = timeout(CATCHING_UP, gathered.pace.catch_up()).await;
        let mut state = lock(&gathered.state);
        state.asked = Instant::now();
        if let Some(failure) = &state.failure
            && state.events.is_empty()
        {
            return Err(failure.clone());
        }
        Ok(std::mem::take(&mut state.events))
    }

    pub(super) fn remove(&self, session: &SessionId, id: &str) -> Result<(), ConnectError> {
        lock(&self.0).remove(&(session.clone(), id.to_owned())).map(drop).ok_or_else(|| not_found(id))
    }
}

/// Whether a watcher whose task has ended is still asked.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Keep,
    Forget,
}

async fn gather(mut watch: Watch, gathered: Weak<Gathered>) -> Outcome {
    loop {
        let next = watch.next().await;
        let Some(gathered) = gathered.upgrade() else { return Outcome::Forget };
        let mut state = lock(&gathered.state);
        match next {
            Ok(event) if state.events.len() < MOST_EVENTS => state.events.push(event),
            Ok(_) => {
                let lost = format!("watcher error: more than {MOST_EVENTS} events were waiting; watch again");
                state.failure = Some(ConnectError::internal(lost));
                return Outcome::Keep;
            }
            // Nothing more happens in it.
            Err(End::Directory) => return Outcome::Keep,
            Err(End::Sandbox) => return Outcome::Forget,
            Err(End::Failed(error)) => {
                state.failure = Some(error);
                return Outcome::Keep;
            }
        }
    }
}

/// Waits until nobody has asked for long.
async fn nobody_asks(gathered: Weak<Gathered>) {
    loop {
        let Some(end) = gathered.upgrade().map(|gathered| lock(&gathered.state).asked + PATIENCE) else { return };
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
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
