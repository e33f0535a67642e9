//! Synchronisation primitives: the part of `std::sync` that is needed, with the same signatures.

pub mod atomic;
mod condvar;
mod mutex;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
