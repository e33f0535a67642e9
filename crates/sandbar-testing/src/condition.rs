//! Waiting for something that happens in its own time.

use std::time::{Duration, Instant};

/// Returns as soon as `condition` holds; fails the test, naming `what`, when it does not within half a minute.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
