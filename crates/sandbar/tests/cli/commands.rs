//! `exec` and `run`.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process};
use sandbar_testing::tree::scratch;

use crate::world::World;

#[test]
fn exec_passes_output_and_exit_code_through() {
    let world = World::new();
    world.sandbox("box");
    let said = world.run([
        "exec",
        "box",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 7",
    ]);
    assert_eq!(
        (said.code, said.stdout.as_str(), said.stderr.as_str()),
        (7, "out\n", "err\n")
    );
    for (line, code) in [("kill -9 $$", 137), ("kill -15 $$", 143), ("exit 255", 255)] {
        assert_eq!(
            world.run(["exec", "box", "--", "sh", "-c", line]).code,
            code,
            "{line}"
        );
    }
}

#[test]
fn exec_sets_directory_and_variables_and_no_others() {
    let world = World::new();
    world
        .run(["new", "--id", "box", "--env", "FROM_SESSION=1"])
        .data();
    assert_eq!(
        world.run(["exec", "box", "--", "pwd"]).data(),
        "/workspace\n"
    );
    assert_eq!(
        world
            .run(["exec", "box", "--cwd", "/tmp", "--", "pwd"])
            .data(),
        "/tmp\n"
    );
    let environment = world
        .run(["exec", "box", "-e", "FROM_CALL=a=b", "--", "env"])
        .data();
    assert!(
        environment.contains("FROM_SESSION=1\n") && environment.contains("FROM_CALL=a=b\n"),
        "{environment}"
    );
    assert!(
        !environment.contains("SANDBAR_") && !environment.contains("CARGO"),
        "{environment}"
    );
}

#[test]
fn commands_and_processes_run_as_the_user_they_are_given() {
    let world = World::new();
    world.sandbox("box");
    let who = ["sh", "-c", "id -u; echo $HOME $USER"];
    let expected = "1000\n/home/user user\n";
    assert_eq!(
        world
            .run([&["exec", "--user", "user", "box", "--"][..], &who].concat())
            .data(),
        expected
    );
    assert_eq!(
        world
            .run([&["run", "--user", "1000", "--"][..], &who].concat())
            .stdout,
        expected
    );
    let process = world
        .run([&["launch", "--user", "user", "box", "--"][..], &who].concat())
        .word();
    assert_eq!(
        world.run(["logs", "box", &process, "--follow"]).stdout,
        expected
    );
    for verb in ["exec", "launch"] {
        let stranger = [verb, "--user", "stranger", "box", "--", "true"];
        world
            .run(stranger)
            .refused(1, &["no user `stranger`", "/etc/passwd"]);
    }
}

#[test]
fn root_rights_are_bare_and_others_refused_without_support() {
    let world = World::new();
    world.sandbox("box");
    assert!(
        world
            .run(["inspect", "box"])
            .data()
            .contains("root rights: bare")
    );
    world
        .run(["new", "--root-rights", "own"])
        .refused(1, &["rights of its own", "runtime `none`"]);
    world
        .run(["new", "--root-rights", "all"])
        .refused(2, &["bare or own"]);
    assert_eq!(world.ids(), ["box"]);
}

#[test]
fn exec_feeds_a_pipe_to_the_command_whole() {
    let world = World::new();
    world.sandbox("box");
    assert_eq!(
        world
            .run_with(b"hello", &["exec", "box", "--", "tr", "a-z", "A-Z"])
            .data(),
        "HELLO"
    );
    let large = vec![b'x'; 3 << 20];
    assert_eq!(
        world
            .run_with(&large, &["exec", "box", "--", "wc", "-c"])
            .word(),
        large.len().to_string()
    );
    // Unread stdin does not block a command that exits.
    assert_eq!(
        world.run_with(&large, &["exec", "box", "--", "true"]).code,
        0
    );
}

#[test]
fn large_output_arrives_whole() {
    let world = World::new();
    world.sandbox("box");
    let said = world.run(["exec", "box", "--", "head", "-c", "20000000", "/dev/zero"]);
    assert_eq!(
        (said.code, said.stdout.len()),
        (0, 20_000_000),
        "{}",
        said.stderr
    );
}

#[test]
fn timed_out_command_exits_with_124_and_a_note() {
    let world = World::new();
    world.sandbox("box");
    let said = world.run(["exec", "box", "--timeout", "200ms", "--", "sleep", "600"]);
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (124, "note: command killed after its timeout\n")
    );
}

#[test]
fn commands_that_cannot_start_exit_as_in_a_shell() {
    let world = World::new();
    world.sandbox("box");
    world.shell("box", "echo text > plain; chmod 644 plain");
    world
        .run(["exec", "box", "--", "no-such-command"])
        .refused(127, &["no-such-command"]);
    world
        .run(["exec", "box", "--", "./plain"])
        .refused(126, &["plain"]);
    world
        .run(["exec", "box", "--cwd", "/no/such/dir", "--", "true"])
        .refused(1, &["/no/such/dir"]);
    world
        .run(["exec", "gone", "--", "true"])
        .refused(1, &["gone"]);
}

#[test]
fn ctrl_c_interrupts_the_command_and_a_second_one_ends_it() {
    let world = World::new();
    world.sandbox("box");
    let patient = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done";
    let stubborn = "trap 'echo caught' INT; echo ready; while :; do sleep 0.05; done";
    for (line, interrupts, code) in [(patient, 1, 3), (stubborn, 2, 130)] {
        let mut child = world
            .server
            .client(["exec", "box", "--", "sh", "-c", line])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(stdout.next().unwrap().unwrap(), "ready");
        for number in 0..interrupts {
            // The second one is sent after the command has handled the first.
            if number > 0 {
                assert_eq!(stdout.next().unwrap().unwrap(), "caught");
            }
            kill_process(
                Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
                Signal::INT,
            )
            .unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

#[test]
fn run_creates_and_removes_a_sandbox() {
    let world = World::new();
    let said = world.run(["run", "--", "sh", "-c", "echo hello; exit 5"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (5, "hello\n"),
        "{said:?}"
    );
    assert!(world.ids().is_empty());
    world
        .run(["run", "--", "no-such-command"])
        .refused(127, &["no-such-command"]);
    world
        .run(["run", "--base", "unknown", "--", "true"])
        .refused(1, &["unknown"]);
    assert!(world.ids().is_empty());
}

#[test]
fn run_keeps_the_sandbox_when_asked_and_says_which() {
    let world = World::new();
    let said = world.run(["run", "--keep", "--", "sh", "-c", "echo kept > file"]);
    let id = said
        .stderr
        .trim_end()
        .strip_prefix("kept sandbox ")
        .unwrap()
        .to_owned();
    assert_eq!(said.code, 0);
    assert_eq!(world.ids(), std::slice::from_ref(&id));
    assert_eq!(world.shell(&id, "cat file"), "kept\n");
}

#[test]
fn run_copies_a_directory_in_and_leaves_the_original_alone() {
    let world = World::new();
    let here = scratch();
    std::fs::create_dir(here.path().join("sub")).unwrap();
    std::fs::write(here.path().join("sub/file"), "from here").unwrap();
    let volume = format!("{}:/workspace", here.path().display());
    assert_eq!(
        world
            .run([
                "run",
                "-v",
                &volume,
                "--",
                "sh",
                "-c",
                "cat sub/file; echo changed > sub/file"
            ])
            .data(),
        "from here"
    );
    assert_eq!(
        std::fs::read_to_string(here.path().join("sub/file")).unwrap(),
        "from here"
    );
    world
        .run(["run", "-v", "/no/such/dir:/workspace", "--", "true"])
        .refused(1, &["/no/such/dir", "exists"]);
    assert!(world.ids().is_empty());
}

#[test]
fn run_removes_the_sandbox_also_when_it_is_interrupted() {
    let world = World::new();
    let mut child = world
        .server
        .client(["run", "--", "sh", "-c", "echo ready; exec sleep 600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert_eq!(first, "ready\n");
    assert_eq!(world.ids().len(), 1);
    kill_process(
        Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
        Signal::TERM,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(world.ids().is_empty());
}
