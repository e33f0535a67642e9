//! Signal numbers of Linux that callers and the host use by name.

use crate::{Error, Result};

pub const SIGINT: i32 = 2;
pub const SIGQUIT: i32 = 3;
pub const SIGKILL: i32 = 9;
pub const SIGTERM: i32 = 15;

/// Largest signal a command can be sent. Real-time signals (32 to 64) are not supported.
const MAX_SIGNAL: i32 = 31;

/// Whether `number` is a signal that a command can be sent.
pub fn is_valid(number: i32) -> bool {
    (1..=MAX_SIGNAL).contains(&number)
}

/// Returns `number` if it is a signal that a command can be sent.
pub fn check(number: i32) -> Result<i32> {
    if is_valid(number) {
        return Ok(number);
    }
    Err(
        Error::invalid("signal", format!("signal {number} does not exist")).with_hint(format!(
            "use a number from 1 to {MAX_SIGNAL}: 2 for SIGINT, 9 for SIGKILL, 15 for SIGTERM"
        )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_out_of_range_is_refused() {
        assert_eq!(check(1).unwrap(), 1);
        assert_eq!(check(31).unwrap(), 31);
        for bad in [i32::MIN, -9, 0, 32, 64, i32::MAX] {
            assert_eq!(check(bad).unwrap_err().field(), Some("signal"), "{bad}");
        }
    }
}
