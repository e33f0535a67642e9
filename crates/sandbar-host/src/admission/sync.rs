//! Synchronisation primitives of the admission lock: those of the standard library, or in tests
//! those of `sandbar-interleave`, whose checker chooses the schedule.

#[cfg(not(test))]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(test)]
pub(super) use sandbar_interleave::{
    sync::{Condvar, Mutex, MutexGuard},
    time::now,
};

#[cfg(not(test))]
pub(super) fn now() -> std::time::Instant {
    std::time::Instant::now()
}
