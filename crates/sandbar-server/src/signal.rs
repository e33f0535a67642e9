//! Signals that callers name by number.

use sandbar_core::{Error, Result};

const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// What a process is sent when nothing else is asked for.
pub(crate) const SIGTERM: i32 = 15;

/// A signal there is.
pub(crate) fn known_signal(number: i32) -> Result<i32> {
    if SIGNALS.contains(&number) {
        return Ok(number);
    }
    Err(Error::invalid("signal", format!("there is no signal {number}"))
        .with_hint("use the number of a signal: 2 for SIGINT, 9 for SIGKILL, 15 for SIGTERM"))
}
