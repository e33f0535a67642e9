//! Watching a directory of a session for changes.

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use sandbar_core::{DirNews, Error, ErrorCode, Result, SessionId};
use sandbar_tree::session_tree::{TreeWatch, WatchBatch, absolute};
use tokio::{io::unix::AsyncFd, sync::Notify, time::timeout};

use super::watch_pace::WatchPace;
use crate::{
    Host,
    admission::not_found,
    blocking::blocking,
    call_slots::CallSlots,
    process::StopReason,
    readable,
    verb::{Call, Verb},
};

/// Time for the second event of a rename to arrive. One system call queues both.
const RENAME_TIMEOUT: Duration = Duration::from_millis(20);

/// Time that [`Host::changes_delivered`] waits for slow watchers.
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(200);

impl Host {
    /// Watches a directory of a session, with `recursive` including everything below it. A watch
    /// blocks no other verb: it ends when the session is rolled back, hibernated or destroyed.
    pub async fn watch_dir(
        &self,
        id: &SessionId,
        path: &Path,
        recursive: bool,
    ) -> Result<DirWatcher> {
        let (target, path) = (id.clone(), absolute(path)?);
        let (slot, descriptor, slots) = self
            .run(Call::on(id, Verb::WatchDir), move |engine| {
                let session = engine.session(&target)?;
                let _entry = session.admission.enter_shared()?;
                engine.present(&target)?;
                let watch = TreeWatch::open_within(
                    Arc::clone(&session.watch_budget),
                    session.tree(engine)?,
                    &path,
                    recursive,
                )?;
                let descriptor = watch.descriptor()?;
                let state = Mutex::new(State::Open(Box::new(watch)));
                let slot = Arc::new(WatchSlot {
                    state,
                    ended: Notify::new(),
                    pace: Arc::default(),
                });
                session.remember_watch(&slot)?;
                Ok((slot, descriptor, Arc::clone(&session.slots)))
            })
            .await?;
        let readable = readable::register(descriptor)
            .map_err(|error| Error::io("wait for changes of a directory", error))?;
        Ok(DirWatcher {
            id: id.clone(),
            slot,
            slots,
            readable,
            queue: VecDeque::new(),
            is_drained: true,
            seen: 0,
        })
    }

    /// Waits until the watchers of a session have reported the changes so far. A client that reads
    /// its watcher next sees them, and new directories are watched already.
    pub async fn changes_delivered(&self, id: &SessionId) {
        let (engine, id) = (Arc::clone(self.engine()), id.clone());
        // A session that is gone has no watchers.
        let Ok(watches) = blocking(move || Ok(engine.session(&id)?.watches())).await else {
            return;
        };
        let told = watches.iter().map(|watch| watch.pace.catch_up());
        let _ = timeout(CATCH_UP_TIMEOUT, join_all(told)).await;
    }
}

/// A watch that [`Session::stop`](super::Session::stop) can end, so that it does not keep the
/// volume busy.
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
    /// Ends the watch before the tree is replaced or unmounted.
    pub(super) fn end(&self, reason: StopReason) {
        *self.lock() = State::Ended(reason);
        self.ended.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watcher: the stream of changes of a directory.
#[derive(Debug)]
pub struct DirWatcher {
    id: SessionId,
    slot: Arc<WatchSlot>,
    slots: Arc<CallSlots>,
    readable: AsyncFd<OwnedFd>,
    queue: VecDeque<DirNews>,
    /// Whether the last read left nothing.
    is_drained: bool,
    /// Number of requests to catch up that this watcher has answered.
    seen: u64,
}

impl Drop for DirWatcher {
    fn drop(&mut self) {
        self.slot.pace.end();
    }
}

impl DirWatcher {
    /// Returns the progress of this watcher, for callers that wait for it.
    pub fn pace(&self) -> Arc<WatchPace> {
        Arc::clone(&self.slot.pace)
    }

    /// Returns the next change. An error ends the watch: the session or the directory is gone.
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
        let is_undecided = self
            .with_watch(|watch| Ok(watch.has_pending_move()))
            .await?;
        if !is_undecided {
            // The client asks for the next change, so it has received every earlier one.
            self.slot.pace.tell(self.seen);
        }
        let comes = async {
            tokio::select! {
                () = self.slot.ended.notified() => Ok(()),
                () = self.slot.pace.asked_again(self.seen) => Ok(()),
                // Cleared before the read, so that later events wake the task again.
                ready = self.readable.readable() => ready.map(|mut ready| ready.clear_ready()),
            }
        };
        let came = if is_undecided {
            timeout(RENAME_TIMEOUT, comes).await
        } else {
            Ok(comes.await)
        };
        if let Ok(outcome) = came {
            return outcome.map_err(|error| Error::io("wait for changes of a directory", error));
        }
        let decided = self
            .with_watch(|watch| Ok(watch.resolve_pending_move()))
            .await?;
        self.queue.extend(decided);
        Ok(())
    }

    async fn with_watch<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut TreeWatch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (slot, id) = (Arc::clone(&self.slot), self.id.clone());
        let work = move || match &mut *slot.lock() {
            State::Open(watch) => work(watch),
            State::Ended(why) => Err(ended(&id, *why)),
        };
        self.slots.finish(work).await
    }
}

fn ended(id: &SessionId, why: StopReason) -> Error {
    match why {
        StopReason::Destroyed => not_found(id),
        StopReason::RolledBack => Error::new(
            ErrorCode::InvalidState,
            format!("session `{id}` was rolled back, which replaced its directories"),
        )
        .with_hint("list the directory, then watch it again"),
        StopReason::PausedWithoutMemory => Error::new(
            ErrorCode::SessionPaused,
            format!("session `{id}` is paused without its memory"),
        )
        .with_hint(format!(
            "resume it with `sandbar resume {id}`, then watch again"
        )),
        StopReason::Hibernated => Error::new(
            ErrorCode::SessionPaused,
            format!("session `{id}` is hibernated"),
        )
        .with_hint(format!(
            "wake it with `sandbar wake {id}`, then watch again"
        )),
        StopReason::HostStopped => Error::new(ErrorCode::Unavailable, "host is stopping")
            .with_hint("watch again after the host is restarted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;

    #[test]
    fn watches_of_a_session_are_limited() {
        let session = Session::new("s".parse().unwrap());
        // Without an inotify instance each, of which the machine has few.
        let slot = || {
            Arc::new(WatchSlot {
                state: Mutex::new(State::Ended(StopReason::RolledBack)),
                ended: Notify::new(),
                pace: Arc::default(),
            })
        };
        let mut held: Vec<_> = (0..64).map(|_| slot()).collect();
        for watch in &held {
            session.remember_watch(watch).unwrap();
        }
        let more = slot();
        let error = session.remember_watch(&more).unwrap_err();
        assert_eq!(error.code(), ErrorCode::TooManyCalls);
        assert!(error.message().contains("64 watches"), "{error}");
        held.pop();
        session.remember_watch(&more).unwrap();
    }
}
