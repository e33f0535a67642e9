//! A host for one client, and the questions it is asked afterwards.

use std::process::{Command, Stdio};

use sandbar_testing::{TestServer, TestServerOptions};

/// What every client says it did, in this order.
const STEPS: [&str; 8] = ["create", "tool", "snapshot", "stream", "rollback", "error", "exec", "destroy"];
/// What the audit log has of that, among other things and in this order.
const TRACES: [&str; 5] = ["create_session", "execute_tool", "create_snapshot", "rollback_session", "destroy_session"];
const SESSION: &str = "driven";

/// Has a program drive a host of its own, told where it is by `URL`, `TOKEN` and `SESSION`, the id of the session to make.
#[track_caller]
pub(crate) fn drive(mut program: Command) {
    let server = start();
    let token = std::fs::read_to_string(server.data_dir().join("token")).unwrap();
    program.env("URL", server.url()).env("TOKEN", token.trim()).env("SESSION", SESSION);
    // A proxy of the developer's is for the world, and this host is not there.
    for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        program.env_remove(name);
    }
    let output = program.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    let context = format!("it said:\n{said}\n{complained}\nthe host said:\n{}", server.said());
    assert!(output.status.success(), "{program:?}: {}\n{context}", output.status);
    assert_in_order(&STEPS, said.lines().filter_map(|line| line.split(':').next()), &context);
    let audit = server.client(["audit", SESSION]).output().unwrap();
    let audit = String::from_utf8_lossy(&audit.stdout);
    let succeeded = audit.lines().filter(|line| line.contains("  ok")).filter_map(|line| {
        let (_, after) = line.split_once("token:")?;
        after.split_whitespace().nth(1)
    });
    assert_in_order(&TRACES, succeeded, &format!("{audit}\n{context}"));
}

/// Storage with snapshots that cost nothing, and isolation, as people have it.
fn start() -> TestServer {
    let options = TestServerOptions::new(env!("CARGO_BIN_EXE_sandbar"));
    TestServer::start(&options.argument("--storage").argument("btrfs").argument("--runtime").argument("native"))
}

/// Whether all that is wanted is among the words, in its order.
#[track_caller]
fn assert_in_order<'a>(wanted: &[&str], mut words: impl Iterator<Item = &'a str>, context: &str) {
    for want in wanted {
        assert!(words.any(|word| word == *want), "`{want}` is missing, or not in its place\n{context}");
    }
}
