//! `attach` and `launch -it`.

use sandbar_testing::Seat;

use crate::world::World;

const DETACH_KEYS: &str = "\x10\x11";

fn sit_down(world: &World, arguments: &[&str]) -> Seat {
    let mut command = world.server.client(arguments);
    command.env("TERM", "xterm-test");
    Seat::start(command, 40, 100)
}

fn enter(seat: &Seat, line: &str) {
    seat.press(&format!("{line}\r"));
}

/// Returns the only process of the sandbox.
fn process(world: &World) -> String {
    let listed: serde_json::Value =
        serde_json::from_str(&world.run(["ps", "box", "--json"]).data()).unwrap();
    listed[0]["process_id"].as_str().unwrap().to_owned()
}

#[test]
fn detached_shell_keeps_its_state() {
    let world = World::new();
    world.sandbox("box");
    let mut seat = sit_down(&world, &["launch", "-it", "box", "--", "sh"]);
    enter(&seat, "kept=$((20+3)); stty size; echo $TERM");
    seat.see("40 100\r\nxterm-test\r\n");
    let before = seat.pty().modes();
    seat.press(DETACH_KEYS);
    seat.see("keeps running");
    assert_eq!(seat.finish(), Some(0));
    assert_ne!(seat.pty().modes(), before, "the terminal is still raw");

    let process = process(&world);
    let mut other = Seat::start(
        world
            .server
            .client(["attach", "box", &process, "--replay", "none"]),
        10,
        20,
    );
    enter(&other, "stty size; echo found-$kept");
    other.see("10 20\r\nfound-23\r\n");
    // The first detach key alone is passed on.
    other.press("echo \x10");
    enter(&other, "; exit 9");
    assert_eq!(other.finish(), Some(9));
}

#[test]
fn several_clients_feed_a_process_with_open_stdin() {
    let world = World::new();
    world.sandbox("box");
    let line = "echo up; while read line; do echo \"got $line\"; test $line = end && exit 4; done";
    let process = world
        .run([
            "launch", "--stdin", "--ready", "log:up", "--wait", "box", "--", "sh", "-c", line,
        ])
        .word();
    let mut follower = Seat::start(
        world
            .server
            .client(["attach", "box", &process, "--replay", "all"]),
        24,
        80,
    );
    follower.see("up");
    enter(&follower, "typed");
    follower.see("got typed");
    // The end of our input does not close the stdin of the process.
    let said = world.run_with(
        b"one\nend\n",
        &["attach", "box", &process, "--replay", "none"],
    );
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (4, "got one\ngot end\n"),
        "{said:?}"
    );
    assert_eq!(follower.finish(), Some(4));
    let late = world.run(["attach", "box", &process]);
    assert_eq!(late.code, 4, "{late:?}");
    assert!(late.stdout.ends_with("got end\n"), "{late:?}");
}

#[test]
fn launch_closes_stdin_of_the_process_at_eof() {
    let world = World::new();
    world.sandbox("box");
    let said = world.run_with(b"hello", &["launch", "-i", "box", "--", "cat"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "hello"), "{said:?}");
    assert!(said.stderr.starts_with("process "), "{said:?}");
    world
        .run(["launch", "-t", "box", "--", "sh"])
        .refused(2, &["needs a terminal", "-d"]);
    let waiting = world.run(["launch", "-itd", "box", "--", "sh"]).word();
    let said = world.run_with(b"exit 3\n", &["attach", "box", &waiting]);
    assert_eq!(said.code, 3, "{said:?}");
    world
        .run(["attach", "box", "unknown"])
        .refused(1, &["unknown"]);
}
