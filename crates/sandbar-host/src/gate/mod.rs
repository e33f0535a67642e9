//! Admission to one session: shared work goes on side by side, exclusive work waits for it and keeps newcomers out.
//!
//! Invariants, each of them tried under every schedule by `tests`:
//! - exclusive work overlaps with nothing;
//! - from the moment somebody asks for exclusive entry nobody comes in, so a drain ends when those inside do, or is given
//!   up for somebody it gives way to;
//! - whoever destroys the session keeps it shut for as long as that takes, also while waiting for other exclusive work;
//! - a caller that gives up, by an error or by unwinding, leaves the gate as if it had not come;
//! - when the session is gone, everybody is told, also those who wait.

mod admission;
mod entry;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use admission::{Closing, Gate, not_found};
pub(crate) use entry::SharedEntry;
