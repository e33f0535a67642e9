//! `sandbar exec` from the terminal, against `bwrap` on the same command.

use std::{
    process::{Command, Stdio},
    time::Instant,
};

use sandbar_testing::{
    TestServer,
    measure::{Report, alternate, middle, milliseconds},
};

use crate::rates::start_server;

const ROUNDS: usize = 100;

pub(crate) fn measure(report: &mut Report) {
    let server = start_server();
    let session = new_session(&server);
    let (theirs, ours) = alternate(
        ROUNDS,
        |_| timed(bubblewrap()),
        |_| timed(server.client(["exec", &session, "--", "true"])),
    );
    report.ratio(
        "`sandbar exec` of `true` ÷ bwrap".into(),
        middle(&ours),
        middle(&theirs),
        Some(2.0),
    );
    let (theirs, ours) = alternate(
        ROUNDS,
        |_| timed(bubblewrap()),
        |_| timed(server.client(["run", "--", "true"])),
    );
    report.ratio(
        "`sandbar run` of `true`, made and removed ÷ bwrap".into(),
        middle(&ours),
        middle(&theirs),
        None,
    );
    let (plain, ours) = alternate(
        ROUNDS,
        |_| timed(Command::new("true")),
        |_| timed(server.client(["--version"])),
    );
    report.ratio(
        "  of that, starting our program ÷ starting `true`".into(),
        middle(&ours),
        middle(&plain),
        None,
    );
}

fn new_session(server: &TestServer) -> String {
    let output = server
        .client(["new"])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// All namespaces, a read-only root and a writable directory: the closest to a session.
fn bubblewrap() -> Command {
    let mut command = Command::new("bwrap");
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--clearenv",
    ]);
    command.args([
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
    ]);
    command.args([
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--ro-bind",
        "/etc",
        "/etc",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]);
    command.args([
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/workspace",
        "--chdir",
        "/workspace",
    ]);
    command.args(["--setenv", "PATH", "/usr/bin", "true"]);
    command
}

/// Returns the milliseconds from start to exit of a program.
fn timed(mut command: Command) -> f64 {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let started = Instant::now();
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    let took = milliseconds(started);
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    took
}
