//! The same with the Python SDK, which causes most of the latency that its users see.

use std::{net::SocketAddr, path::Path, process::Command};

use sandbar_e2b::api_key;
use sandbar_testing::{TestServer, installed, measure::Report};
use serde::Deserialize;

use crate::spread::Spread;

/// Results of `tests/e2b/python/bench.py` in milliseconds.
#[derive(Debug, Deserialize)]
struct Measured {
    sequential: Vec<f64>,
    staggered: Vec<f64>,
    burst: Vec<f64>,
    async_bursts: Vec<f64>,
}

/// Runs the SDK; prints a note if it is not installed.
#[expect(clippy::print_stdout, reason = "benchmarks print what they measured")]
pub(crate) fn measure(report: &mut Report, host: &TestServer, bare: SocketAddr) {
    let Some(python) = installed("e2b/python-newest/bin/python3") else {
        println!("SKIPPED: the Python SDK is not installed here (`make setup-tests` installs it)");
        return;
    };
    let token = std::fs::read_to_string(host.data_dir().join("token")).unwrap();
    let theirs = run(&python, &format!("http://{bare}"), token.trim());
    let ours = run(&python, host.url(), token.trim());
    for (what, ours, theirs, aim) in [
        (
            "one after the other",
            ours.sequential,
            theirs.sequential,
            None,
        ),
        (
            "staggered by 200 ms",
            ours.staggered,
            theirs.staggered,
            None,
        ),
        ("20 at once", ours.burst, theirs.burst, None),
        (
            "async, all of 20 at once",
            ours.async_bursts,
            theirs.async_bursts,
            Some(2.0),
        ),
    ] {
        let (ours, theirs) = (Spread::of(&ours), Spread::of(&theirs));
        report.ratio(
            format!("Python SDK, {what}, median ÷ bare"),
            ours.median,
            theirs.median,
            aim,
        );
        report.figure(format!("Python SDK, {what}, p99"), ours.p99, "ms", None);
    }
}

fn run(python: &Path, url: &str, token: &str) -> Measured {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2b/python/bench.py");
    let mut command = Command::new(python);
    command
        .arg(program)
        .env("E2B_API_URL", url)
        .env("E2B_SANDBOX_URL", url)
        .env("E2B_API_KEY", api_key(token));
    let output = command.env_remove("E2B_DOMAIN").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}
