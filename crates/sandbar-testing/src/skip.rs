//! Tests that cannot run on this machine say so.

use std::io::Write;

/// Appends a line to the report that `make test` prints: which test did not run, and why. A test
/// calls this and returns. Without such a report, as in a benchmark, it is said at once.
pub fn report_skip(test: &str, reason: &str) {
    let Some(path) = std::env::var_os("SANDBAR_SKIP_REPORT") else {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
        return;
    };
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    // One write, so that lines of parallel tests do not mix.
    let _ = file.and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()));
}
