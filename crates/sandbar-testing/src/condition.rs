//! Waiting for something that happens in its own time.

use std::time::{Duration, Instant};

/// Returns as soon as `condition` holds; fails the test, naming `what`, when it does not within
/// three minutes, which is longer than anything takes on a busy machine.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(3);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
