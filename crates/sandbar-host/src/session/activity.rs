//! [`Activity`]: the time a session was last used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Uses of one session. Lock-free, for every call.
#[derive(Debug)]
pub(crate) struct Activity {
    since: Instant,
    /// Milliseconds after `since`.
    last: AtomicU64,
    /// Commands, calls and connections in progress.
    users: AtomicUsize,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            since: Instant::now(),
            last: AtomicU64::new(0),
            users: AtomicUsize::new(0),
        })
    }

    /// Records a use now.
    pub(crate) fn touch(&self) {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    /// Records a use that lasts until the returned guard is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> InUse {
        self.users.fetch_add(1, Ordering::Relaxed);
        InUse(Arc::clone(self))
    }

    /// Whether a use lasts now.
    pub(crate) fn is_held(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 0
    }

    /// Returns the time since the last use; zero while one lasts.
    pub(crate) fn idle_for(&self) -> Duration {
        if self.is_held() {
            return Duration::ZERO;
        }
        self.since
            .elapsed()
            .saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }
}

/// A use of a session, until it is dropped.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Activity>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.touch();
        self.0.users.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_in_use_is_not_idle() {
        let activity = Activity::new();
        let (one, other) = (activity.hold(), activity.hold());
        drop(one);
        assert_eq!(activity.idle_for(), Duration::ZERO);
        drop(other);
        sandbar_testing::eventually("it is idle", || activity.idle_for() > Duration::ZERO);
    }
}
