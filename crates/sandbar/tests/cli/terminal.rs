//! `exec -it`, `run -it` and `shell`, each at a real terminal.

use rustix::process::Signal;
use sandbar_testing::{Pty, Seat, TestServer, tree::scratch};

use crate::world::{World, options};

/// Starts the program at a terminal of 40 rows and 100 columns.
fn sit_down(world: &World, arguments: &[&str]) -> Seat {
    let mut command = world.server.client(arguments);
    command.env("TERM", "xterm-test");
    Seat::start(command, 40, 100)
}

/// Types a line and presses enter.
fn enter(seat: &Seat, line: &str) {
    seat.press(&format!("{line}\r"));
}

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";

#[test]
fn command_at_a_terminal_gets_size_type_and_exit_code() {
    let world = World::new();
    world.sandbox("box");
    let line = "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM && pwd; exit 7";
    let mut seat = sit_down(&world, &["exec", "-it", "box", "--", "sh", "-c", line]);
    seat.see("40 100\r\nxterm-test\r\n/workspace\r\n");
    assert_eq!(seat.finish(), Some(7));
}

#[test]
fn a_change_of_size_arrives_while_the_command_runs() {
    let world = World::new();
    world.sandbox("box");
    let line = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done";
    let mut seat = sit_down(&world, &["exec", "-t", "box", "--", "sh", "-c", line]);
    seat.see("ready");
    for (rows, columns) in [(50, 132), (10, 20)] {
        seat.pty().resize(rows, columns);
        seat.see(&format!("{rows} {columns}"));
    }
    seat.press(CTRL_C);
    assert_eq!(seat.finish(), Some(130));
}

#[test]
fn control_keys_go_to_the_command_in_the_sandbox() {
    let world = World::new();
    world.sandbox("box");
    let mut seat = sit_down(&world, &["shell", "box"]);
    // Input is echoed: the sums distinguish output from it.
    enter(&seat, "echo first-$((1+1)); sleep 600");
    seat.see("first-2");
    seat.press(CTRL_C);
    enter(&seat, "echo second-$((2+2))");
    seat.see("second-4");
    enter(&seat, "sh -c 'echo third-$((3+3)); exec sleep 600'");
    seat.see("third-6");
    seat.press(CTRL_Z);
    seat.see("Stopped");
    enter(
        &seat,
        "kill -9 %1; echo fourth-$((4+4)); cat; echo fifth-$((5+5))",
    );
    seat.see("fourth-8");
    enter(&seat, "for cat");
    seat.see("for cat\r\nfor cat");
    seat.press(CTRL_D);
    seat.see("fifth-10");
    enter(&seat, "exit 9");
    assert_eq!(seat.finish(), Some(9));
}

#[test]
fn the_shell_is_bash_where_there_is_one_and_else_sh() {
    let world = World::new();
    world.sandbox("box");
    let mut seat = sit_down(
        &world,
        &["shell", "box", "--cwd", "/tmp", "--env", "GREETING=hello"],
    );
    enter(&seat, "echo $0 in $PWD says $GREETING");
    seat.see("bash in /tmp says hello");
    seat.press(CTRL_D);
    assert_eq!(seat.finish(), Some(0));

    world.shell("box", "rm $(command -v bash)");
    let mut seat = sit_down(&world, &["shell", "box"]);
    enter(&seat, "echo $0 in $PWD");
    seat.see("sh in /workspace");
    enter(&seat, "exit 3");
    assert_eq!(seat.finish(), Some(3));

    let mut seat = sit_down(&world, &["shell", "gone"]);
    seat.see("error: ");
    assert_eq!(seat.finish(), Some(1));
}

#[test]
fn all_output_is_shown_before_exit() {
    let world = World::new();
    world.sandbox("box");
    let mut seat = sit_down(&world, &["exec", "-it", "box", "--", "seq", "20000"]);
    seat.see("\r\n19999\r\n20000\r\n");
    assert_eq!(seat.finish(), Some(0));
}

#[test]
fn run_at_a_terminal_removes_its_sandbox() {
    let world = World::new();
    let mut seat = sit_down(
        &world,
        &[
            "run",
            "-it",
            "--",
            "sh",
            "-c",
            "stty size; read answer; exit $answer",
        ],
    );
    seat.see("40 100");
    assert_eq!(world.ids().len(), 1);
    enter(&seat, "5");
    assert_eq!(seat.finish(), Some(5));
    assert!(world.ids().is_empty());
}

#[test]
fn terminal_is_raw_only_while_the_command_runs() {
    let world = World::new();
    world.sandbox("box");
    let mut seat = sit_down(
        &world,
        &[
            "exec",
            "-it",
            "box",
            "--",
            "sh",
            "-c",
            "echo ready; read answer; exit 4",
        ],
    );
    seat.see("ready");
    let raw = seat.pty().modes();
    enter(&seat, "done");
    assert_eq!(seat.finish(), Some(4));
    assert_ne!(seat.pty().modes(), raw);
    assert_eq!(seat.pty().modes(), Pty::open(40, 100).modes());
}

#[test]
fn signal_ends_the_command_and_restores_the_terminal() {
    let world = World::new();
    world.sandbox("box");
    let fresh = Pty::open(40, 100).modes();
    for (signal, code) in [
        (Signal::TERM, 143),
        (Signal::HUP, 129),
        (Signal::INT, 130),
        (Signal::QUIT, 131),
    ] {
        let stubborn = "trap '' TERM HUP INT QUIT; echo ready; exec sleep 600";
        let mut seat = sit_down(&world, &["exec", "-it", "box", "--", "sh", "-c", stubborn]);
        seat.see("ready");
        seat.signal(signal);
        assert_eq!(seat.finish(), Some(code));
        assert_eq!(seat.pty().modes(), fresh);
    }
}

#[test]
fn lost_host_is_named_and_terminal_restored() {
    let directory = scratch();
    let start = || World {
        server: TestServer::start_in(&options(), directory.path()),
    };
    let world = start();
    world.sandbox("box");
    let mut seat = sit_down(
        &world,
        &[
            "exec",
            "-it",
            "box",
            "--",
            "sh",
            "-c",
            "printf ready; exec sleep 600",
        ],
    );
    seat.see("ready");
    let World { server } = world;
    let gone = format!(
        "\r\nerror: the host at {} went away before the command had ended",
        server.url()
    );
    server.stop_with(Signal::KILL);
    // Ends processes that the killed host has left.
    drop(start());
    seat.see(&gone);
    assert_eq!(seat.finish(), Some(1));
    assert_eq!(seat.pty().modes(), Pty::open(40, 100).modes());
}

#[test]
fn failed_start_leaves_the_terminal_unchanged() {
    let world = World::new();
    world.sandbox("box");
    let mut seat = sit_down(&world, &["exec", "-it", "box", "--", "no-such-command"]);
    seat.see("error: ");
    seat.see("no-such-command");
    assert_eq!(seat.finish(), Some(127));
    assert_eq!(seat.pty().modes(), Pty::open(40, 100).modes());
}

#[test]
fn exited_command_does_not_wait_for_open_stdin() {
    let world = World::new();
    world.sandbox("box");
    for options in [&["-i"][..], &["-t"], &[]] {
        let arguments = [&["exec", "box"], options, &["--", "sh", "-c", "exit 6"]].concat();
        assert_eq!(
            sit_down(&world, &arguments).finish(),
            Some(6),
            "{options:?}"
        );
    }
    let mut piped = world
        .server
        .client(["exec", "box", "--", "sh", "-c", "exit 6"]);
    let mut piped = piped.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let input = piped.stdin.take();
    assert_eq!(piped.wait().unwrap().code(), Some(6));
    drop(input);
}
