//! The clock of a run.

use std::{sync::OnceLock, time::Instant};

use crate::current::current;

/// The time. In a run it stands still but where somebody has waited long enough; then it is as late as that says.
pub fn now() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    match current() {
        Some(this) => *BEGINNING.get_or_init(Instant::now) + this.clock(),
        None => Instant::now(),
    }
}
