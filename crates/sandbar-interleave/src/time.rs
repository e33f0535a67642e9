//! The clock of a run.

use std::{sync::OnceLock, time::Instant};

use crate::current::current;

/// Returns the current time. In a run it only advances when a wait times out, to the deadline of
/// that wait.
pub fn now() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    match current() {
        Some(this) => *BEGINNING.get_or_init(Instant::now) + this.clock(),
        None => Instant::now(),
    }
}
