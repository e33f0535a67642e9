//! Admission to one session: a shared/exclusive lock with reasons, deadlines and destruction.
//!
//! [`AdmissionLock`] admits shared operations side by side. An exclusive operation refuses new
//! entries at once, drains the shared ones and then runs alone.
//!
//! Invariants, each checked under every schedule by `tests`:
//! - an exclusive operation overlaps with no other operation;
//! - from the request for exclusive entry on, no new entry is admitted. A drain therefore ends when
//!   the entries it waits for do, unless it yields to a waiting caller;
//! - a caller that destroys the session keeps it closed until it is done, also while it waits for
//!   another exclusive operation;
//! - a caller that gives up, by an error or by unwinding, leaves the lock as it was;
//! - once the session is gone every caller gets `SessionNotFound`, waiting callers included.

mod entry;
mod lock;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use entry::SharedEntry;
pub(crate) use lock::{AdmissionLock, ExclusiveWork, not_found};
