//! [`CallSlots`]: limits the threads that calls to one session hold.
//!
//! A call that runs on a thread pool (`blocking.rs`) takes a slot of its session first. Beyond the
//! slots of its class a call waits without a thread; beyond [`MAX_QUEUED_CALLS`] it is refused. So
//! a session whose calls do not end leaves the pools to other sessions.
//!
//! Classes keep calls apart that wait for each other: the calls that end work, and the ones that
//! show a session, have slots that stuck work cannot take.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use sandbar_core::{Error, ErrorCode, Result, SessionId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::blocking::{blocking, waiting};

/// Calls of one class that wait for a slot.
const MAX_QUEUED_CALLS: usize = 1000;

/// A slot, until it is dropped.
pub(crate) type CallSlot = OwnedSemaphorePermit;

/// Class of a call. Each has slots of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallClass {
    /// Waits for no other verb, box or peer: on the pool of 512 threads that all sessions share.
    Brief,
    /// Starts a command, and its box if need be.
    Start,
    /// Signals or resizes a process.
    Signal,
    /// Shows the session.
    Show,
    /// Destroys the session.
    Destroy,
    /// Copies a tree to or from a peer.
    Stream,
    /// Any other work that waits.
    Wait,
}

impl CallClass {
    const ALL: [Self; 7] = [
        Self::Brief,
        Self::Start,
        Self::Signal,
        Self::Show,
        Self::Destroy,
        Self::Stream,
        Self::Wait,
    ];

    const fn slots(self) -> usize {
        match self {
            Self::Brief | Self::Start | Self::Wait => 32,
            Self::Stream => 16,
            Self::Signal | Self::Show | Self::Destroy => 8,
        }
    }
}

/// The slots of one session.
#[derive(Debug)]
pub(crate) struct CallSlots {
    session: SessionId,
    classes: [Class; CallClass::ALL.len()],
}

#[derive(Debug)]
struct Class {
    slots: Arc<Semaphore>,
    queued: AtomicUsize,
}

/// Counts a queued call until it is dropped.
struct Queued<'a>(&'a AtomicUsize);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CallSlots {
    pub(crate) fn new(session: SessionId) -> Arc<Self> {
        let classes = CallClass::ALL.map(|class| Class {
            slots: Arc::new(Semaphore::new(class.slots())),
            queued: AtomicUsize::new(0),
        });
        Arc::new(Self { session, classes })
    }

    /// Takes a slot; waits for one in order of arrival. `TooManyCalls` if too many calls wait.
    pub(crate) async fn acquire(&self, class: CallClass) -> Result<CallSlot> {
        let Class { slots, queued } = &self.classes[class as usize];
        if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
            return Ok(slot);
        }
        let earlier = queued.fetch_add(1, Ordering::Relaxed);
        let _queued = Queued(queued);
        if earlier >= MAX_QUEUED_CALLS {
            return Err(self.refused(&format!(
                "has {MAX_QUEUED_CALLS} calls that wait for {} others to end",
                class.slots()
            )));
        }
        self.queue(class).await
    }

    /// As [`acquire`](Self::acquire), for the host's own work, which is limited by other means and
    /// must not be refused.
    async fn queue(&self, class: CallClass) -> Result<CallSlot> {
        let slots = &self.classes[class as usize].slots;
        Arc::clone(slots)
            .acquire_owned()
            .await
            .map_err(|error| Error::internal("slots of a session are closed").with_source(error))
    }

    /// Takes a slot for a stream, which may last as long as its peer likes. `TooManyCalls` if all
    /// are taken.
    pub(crate) fn stream(&self) -> Result<CallSlot> {
        let slots = &self.classes[CallClass::Stream as usize].slots;
        Arc::clone(slots).try_acquire_owned().map_err(|_| {
            self.refused(&format!(
                "has reached its limit of {} tree transfers",
                CallClass::Stream.slots()
            ))
        })
    }

    fn refused(&self, how: &str) -> Error {
        Error::new(
            ErrorCode::TooManyCalls,
            format!("session `{}` {how}", self.session),
        )
        .with_hint("wait for calls to end")
    }

    /// Runs brief work in a slot; see [`blocking`].
    pub(crate) async fn brief<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let slot = self.acquire(CallClass::Brief).await?;
        blocking(holding(slot, work)).await
    }

    /// As [`brief`](Self::brief), for the end of work in progress: never refused.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let slot = self.queue(CallClass::Brief).await?;
        blocking(holding(slot, work)).await
    }

    /// Starts a command for the host's own work in a slot; see [`waiting`].
    pub(crate) async fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let slot = self.queue(CallClass::Start).await?;
        waiting(holding(slot, work)).await
    }
}

/// Returns `work` that holds a slot until it has ended, also if its caller has gone.
pub(crate) fn holding<T>(
    slot: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> impl FnOnce() -> T + Send + 'static {
    move || {
        let _slot = slot;
        work()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future::join_all};

    use super::*;

    #[tokio::test]
    async fn call_beyond_the_slots_waits_and_beyond_the_queue_fails() {
        let slots = CallSlots::new("s".parse().unwrap());
        let mut held = Vec::new();
        for _ in 0..CallClass::Brief.slots() {
            held.push(slots.acquire(CallClass::Brief).await.unwrap());
        }
        let mut queued: Vec<_> = (0..MAX_QUEUED_CALLS)
            .map(|_| Box::pin(slots.acquire(CallClass::Brief)))
            .collect();
        assert!(queued.iter_mut().all(|call| call.now_or_never().is_none()));
        let error = slots.acquire(CallClass::Brief).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::TooManyCalls);
        assert!(error.message().contains("1000 calls") && error.message().contains("32 others"));
        // Other classes have slots of their own, and the host's own work is not refused.
        drop(slots.acquire(CallClass::Destroy).await.unwrap());
        assert!(slots.queue(CallClass::Brief).now_or_never().is_none());
        held.clear();
        for call in queued {
            drop(call.await.unwrap());
        }
        drop(slots.acquire(CallClass::Brief).await.unwrap());
    }

    #[tokio::test]
    async fn call_that_is_dropped_leaves_the_queue() {
        let slots = CallSlots::new("s".parse().unwrap());
        let _held =
            join_all((0..CallClass::Brief.slots()).map(|_| slots.acquire(CallClass::Brief))).await;
        let mut waits = Box::pin(slots.acquire(CallClass::Brief));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(waits);
        let queued = &slots.classes[CallClass::Brief as usize].queued;
        assert_eq!(queued.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn stream_beyond_the_slots_is_refused() {
        let slots = CallSlots::new("s".parse().unwrap());
        let held: Vec<_> = (0..CallClass::Stream.slots())
            .map(|_| slots.stream().unwrap())
            .collect();
        let error = slots.stream().unwrap_err();
        assert_eq!(error.code(), ErrorCode::TooManyCalls);
        assert!(error.message().contains("16 tree transfers"), "{error}");
        drop(held);
        drop(slots.stream().unwrap());
    }
}
