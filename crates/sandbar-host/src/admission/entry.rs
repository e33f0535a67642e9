//! Entries to a session. Dropping one leaves the session, also while unwinding.

use std::sync::Arc;

use super::lock::AdmissionLock;

/// A shared entry.
#[derive(Debug)]
pub(crate) struct SharedEntry {
    lock: Arc<AdmissionLock>,
}

impl SharedEntry {
    /// The caller has counted the entry in the state of the lock.
    pub(super) fn new(lock: &Arc<AdmissionLock>) -> Self {
        Self {
            lock: Arc::clone(lock),
        }
    }
}

impl Drop for SharedEntry {
    fn drop(&mut self) {
        let mut state = self.lock.state();
        state.shared -= 1;
        let last = state.shared == 0;
        drop(state);
        if last {
            self.lock.wake_waiters();
        }
    }
}

/// The exclusive entry.
#[derive(Debug)]
pub(crate) struct ExclusiveEntry {
    lock: Arc<AdmissionLock>,
    gone: bool,
    /// Set when the entry is for destruction.
    _destroyer: Option<Destroyer>,
}

impl ExclusiveEntry {
    /// The caller has closed the lock.
    pub(super) fn new(lock: &Arc<AdmissionLock>, destroyer: Option<Destroyer>) -> Self {
        Self {
            lock: Arc::clone(lock),
            gone: false,
            _destroyer: destroyer,
        }
    }

    /// Marks the session as gone: waiting and later callers get `SessionNotFound`.
    pub(crate) fn leave_for_good(mut self) {
        self.gone = true;
    }
}

impl Drop for ExclusiveEntry {
    fn drop(&mut self) {
        let mut state = self.lock.state();
        state.exclusive = None;
        state.gone |= self.gone;
        drop(state);
        self.lock.wake_waiters();
    }
}

/// Announcement of a caller that destroys the session, or waits to. While one exists, only
/// destroyers are admitted.
#[derive(Debug)]
pub(super) struct Destroyer {
    lock: Arc<AdmissionLock>,
}

impl Destroyer {
    pub(super) fn announce(lock: &Arc<AdmissionLock>) -> Self {
        lock.state().destroyers += 1;
        Self {
            lock: Arc::clone(lock),
        }
    }
}

impl Drop for Destroyer {
    /// Wakes no waiter: callers that an announcement keeps out are refused and do not wait.
    fn drop(&mut self) {
        self.lock.state().destroyers -= 1;
    }
}
