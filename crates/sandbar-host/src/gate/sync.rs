//! What the gate waits with: the standard library, or in tests what lets a checker decide who goes on.

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
