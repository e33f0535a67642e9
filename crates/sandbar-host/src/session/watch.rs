//! Watching what changes in a directory of a session.

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use sandbar_core::{DirNews, Error, ErrorCode, Result, SessionId};
use sandbar_storage::session_tree::{TreeWatch, WatchBatch, absolute};
use tokio::{io::unix::AsyncFd, sync::Notify, time::timeout};

use super::watch_pace::WatchPace;
use crate::{
    Host,
    gate::not_found,
    host::blocking,
    process::StopReason,
    readable,
    verb::{Call, Verb},
};

/// How long the second half of a rename may take to come. It is told by the same system call as the first.
const SECOND_HALF: Duration = Duration::from_millis(20);

/// How long a change waits for those who watch. Who does not listen holds nobody up for longer.
const PATIENCE: Duration = Duration::from_millis(200);

impl Host {
    /// Watches a directory of a session, and with `recursive` all below it, whoever changes it. Nobody is held up by it: it
    /// ends when the session is rolled back, hibernated or destroyed.
    pub async fn watch_dir(&self, id: &SessionId, path: &Path, recursive: bool) -> Result<DirWatcher> {
        let (target, path) = (id.clone(), absolute(path)?);
        let (slot, descriptor) = self
            .run(Call::on(id, Verb::WatchDir), move |inner| {
                let session = inner.session(&target)?;
                let _entry = session.gate.enter_shared()?;
                inner.present(&target)?;
                let watch = TreeWatch::open(session.tree(inner)?, &path, recursive)?;
                let descriptor = watch.descriptor()?;
                let state = Mutex::new(State::Open(Box::new(watch)));
                let slot = Arc::new(WatchSlot { state, ended: Notify::new(), pace: Arc::default() });
                session.remember_watch(&slot);
                Ok((slot, descriptor))
            })
            .await?;
        let readable =
            readable::register(descriptor).map_err(|error| Error::io("wait for changes of a directory", error))?;
        Ok(DirWatcher { id: id.clone(), slot, readable, queue: VecDeque::new(), is_drained: true, seen: 0 })
    }

    /// Waits until those who watch in a session know what has happened there, so that whoever asks them next hears of it,
    /// and what is made in a new directory from now on is told as it happens.
    pub async fn changes_told(&self, id: &SessionId) {
        let (inner, id) = (Arc::clone(self.inner()), id.clone());
        // A session that is gone has nobody left to tell.
        let Ok(watches) = blocking(move || Ok(inner.session(&id)?.watches())).await else { return };
        let told = watches.iter().map(|watch| watch.pace.catch_up());
        let _ = timeout(PATIENCE, join_all(told)).await;
    }
}

/// A watch its session can take away: one that is rolled back or destroyed must not be held by somebody who watches it.
#[derive(Debug)]
pub(super) struct WatchSlot {
    state: Mutex<State>,
    ended: Notify,
    pace: Arc<WatchPace>,
}

#[derive(Debug)]
enum State {
    Open(Box<TreeWatch>),
    Ended(StopReason),
}

impl WatchSlot {
    /// The tree goes away.
    pub(super) fn end(&self, why: StopReason) {
        *self.lock() = State::Ended(why);
        self.ended.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What changes in a directory, seen by one who watches it.
#[derive(Debug)]
pub struct DirWatcher {
    id: SessionId,
    slot: Arc<WatchSlot>,
    readable: AsyncFd<OwnedFd>,
    queue: VecDeque<DirNews>,
    /// Nothing was left to read the last time.
    is_drained: bool,
    /// How often it had been asked to look when nothing was left to read.
    seen: u64,
}

impl Drop for DirWatcher {
    fn drop(&mut self) {
        self.slot.pace.end();
    }
}

impl DirWatcher {
    /// How far this watcher is, for those who wait for it.
    pub fn pace(&self) -> Arc<WatchPace> {
        Arc::clone(&self.slot.pace)
    }

    /// The next change. An error is the end: of the session, or of the directory.
    pub async fn next(&mut self) -> Result<DirNews> {
        loop {
            if let Some(news) = self.queue.pop_front() {
                return Ok(news);
            }
            if self.is_drained {
                self.wait().await?;
            }
            let asked = self.slot.pace.asked();
            let WatchBatch { news, drained } = self.with_watch(TreeWatch::read).await?;
            self.queue.extend(news);
            self.is_drained = drained;
            if drained {
                self.seen = asked;
            }
        }
    }

    /// Waits until there is something to read, or the watch has ended.
    async fn wait(&mut self) -> Result<()> {
        let is_undecided = self.with_watch(|watch| Ok(watch.is_undecided())).await?;
        if !is_undecided {
            // Whoever watches has come back for more, so they have got all of it.
            self.slot.pace.tell(self.seen);
        }
        let comes = async {
            tokio::select! {
                () = self.slot.ended.notified() => Ok(()),
                () = self.slot.pace.asked_again(self.seen) => Ok(()),
                // Cleared before it is read, so that what comes afterwards is noticed.
                ready = self.readable.readable() => ready.map(|mut ready| ready.clear_ready()),
            }
        };
        let came = if is_undecided { timeout(SECOND_HALF, comes).await } else { Ok(comes.await) };
        if let Ok(outcome) = came {
            return outcome.map_err(|error| Error::io("wait for changes of a directory", error));
        }
        let decided = self.with_watch(|watch| Ok(watch.decide())).await?;
        self.queue.extend(decided);
        Ok(())
    }

    async fn with_watch<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut TreeWatch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (slot, id) = (Arc::clone(&self.slot), self.id.clone());
        blocking(move || match &mut *slot.lock() {
            State::Open(watch) => work(watch),
            State::Ended(why) => Err(ended(&id, *why)),
        })
        .await
    }
}

fn ended(id: &SessionId, why: StopReason) -> Error {
    match why {
        StopReason::Destroyed => not_found(id),
        StopReason::RolledBack => Error::new(
            ErrorCode::InvalidState,
            format!("session `{id}` was rolled back: its directories are others now"),
        )
        .with_hint("look at the directory, and watch it again"),
        StopReason::PausedWithoutMemory => {
            Error::new(ErrorCode::SessionPaused, format!("session `{id}` is paused, and kept nothing but its files"))
                .with_hint(format!("let it go on with `sandbar resume {id}`, and watch again"))
        }
        StopReason::Hibernated => Error::new(ErrorCode::SessionPaused, format!("session `{id}` is hibernated"))
            .with_hint(format!("bring it back with `sandbar wake {id}`, and watch it again")),
        StopReason::HostStopped => Error::new(ErrorCode::Unavailable, "this host is stopping")
            .with_hint("watch it again when the host is back"),
    }
}
