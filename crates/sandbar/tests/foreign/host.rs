//! A host for one client, and the checks afterwards.

use std::process::{Command, Stdio};

use sandbar_testing::{TestServer, TestServerOptions};
use serde::Deserialize;

/// Steps that clients report, in this order.
const STEPS: [&str; 8] = [
    "create", "tool", "snapshot", "stream", "rollback", "error", "exec", "destroy",
];
/// Steps of a client without streams.
const STEPS_WITHOUT_STREAMS: [&str; 6] =
    ["create", "tool", "snapshot", "rollback", "error", "destroy"];
/// Entries of the audit log for these steps, in this order.
const TRACES: [&str; 5] = [
    "create_session",
    "execute_tool",
    "create_snapshot",
    "rollback_session",
    "destroy_session",
];
const SESSION: &str = "driven";
const BINARY: &str = env!("CARGO_BIN_EXE_sandbar");

/// Runs a program against a host of its own, given by `URL` and `TOKEN`; `SESSION` is the id of the
/// session to create.
#[track_caller]
pub(crate) fn drive(program: Command) {
    drive_through(&STEPS, program);
}

/// Like [`drive`], for a client without streams.
#[track_caller]
pub(crate) fn drive_without_streams(program: Command) {
    drive_through(&STEPS_WITHOUT_STREAMS, program);
}

/// Runs a program that takes these steps on a host of its own and creates no session.
#[track_caller]
pub(crate) fn probe(program: Command, steps: &[&str]) {
    run(&start(), steps, program);
}

#[track_caller]
fn drive_through(steps: &[&str], program: Command) {
    let server = start();
    let context = run(&server, steps, program);
    let audit = server
        .client(["audit", "--json", SESSION])
        .output()
        .unwrap();
    let audit: Vec<Entry> = serde_json::from_slice(&audit.stdout).unwrap();
    let succeeded = audit
        .iter()
        .filter(|entry| entry.outcome == "ok")
        .map(|entry| entry.what.as_str());
    assert_in_order(&TRACES, succeeded, &format!("{audit:?}\n{context}"));
}

/// Runs a program against a host and checks its steps; returns the output of both.
#[track_caller]
fn run(server: &TestServer, steps: &[&str], mut program: Command) -> String {
    let token = std::fs::read_to_string(server.data_dir().join("token")).unwrap();
    program
        .env("URL", server.url())
        .env("TOKEN", token.trim())
        .env("SESSION", SESSION)
        .env("SANDBAR", BINARY);
    // A proxy in the environment must not be used for this host.
    for name in [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ] {
        program.env_remove(name);
    }
    let output = program
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    let context = format!(
        "it said:\n{said}\n{complained}\nthe host said:\n{}",
        server.said()
    );
    assert!(
        output.status.success(),
        "{program:?}: {}\n{context}",
        output.status
    );
    assert_in_order(
        steps,
        said.lines().filter_map(|line| line.split(':').next()),
        &context,
    );
    context
}

/// Returns the compared part of an audit entry.
#[derive(Debug, Deserialize)]
struct Entry {
    what: String,
    outcome: String,
}

/// Options of a host with cheap snapshots and isolation.
fn start() -> TestServer {
    let options = TestServerOptions::new(BINARY);
    TestServer::start(
        &options
            .argument("--storage")
            .argument("btrfs")
            .argument("--runtime")
            .argument("native"),
    )
}

/// Returns whether all of `wanted` occurs in this order.
#[track_caller]
fn assert_in_order<'a>(wanted: &[&str], mut words: impl Iterator<Item = &'a str>, context: &str) {
    for want in wanted {
        assert!(
            words.any(|word| word == *want),
            "`{want}` is missing, or not in its place\n{context}"
        );
    }
}
