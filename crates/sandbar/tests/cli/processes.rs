//! `launch`, `ps`, `kill`, `logs`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::world::World;

/// Server that answers every request with `hello` and logs it.
const SERVER: &str = r#"
    use IO::Socket::INET; $| = 1; my ($port) = @ARGV;
    my $server = IO::Socket::INET->new(Listen => 9, LocalAddr => "127.0.0.1", LocalPort => $port, ReuseAddr => 1)
        or die "$!\n";
    print "listening\n";
    while (my $peer = $server->accept) {
        my $request = <$peer>; while (<$peer>) { last if /^\r?$/ }
        print $peer "HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"; close $peer;
        print STDERR "asked for $1\n" if $request =~ m{^GET (\S+)};
    }
"#;

/// Returns a free port: without isolation, a sandbox listens on this machine.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
        .to_string()
}

/// Fetches a path over plain HTTP.
fn fetch(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn listed(world: &World) -> Value {
    serde_json::from_str(&world.run(["ps", "box", "--json"]).data()).unwrap()
}

/// Checks the table and the JSON of a running process.
fn assert_listed(world: &World, process: &str, address: &str) {
    let table = world.run(["ps", "box"]).data();
    let lines: Vec<&str> = table.lines().collect();
    let headings: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(
        headings,
        [
            "ID", "STATUS", "PID", "ADDRESS", "RESTARTS", "STARTED", "COMMAND"
        ]
    );
    assert!(
        lines[1].starts_with(process) && lines[1].contains("running") && lines[1].contains(address),
        "{table}"
    );
    let running = &listed(world)[0];
    assert_eq!(
        (&running["status"], &running["address"]),
        (&"running".into(), &address.into())
    );
    assert_eq!(
        (&running["process_id"], &running["exit"]),
        (&process.into(), &Value::Null)
    );
}

#[test]
fn server_is_launched_reached_followed_and_killed() {
    let world = World::new();
    world.sandbox("box");
    let port = free_port();
    let said = world.run([
        "launch",
        "box",
        "--port",
        &port,
        "--ready",
        "http:/health",
        "--wait",
        "--",
        "perl",
        "-e",
        SERVER,
        &port,
    ]);
    assert_eq!(said.code, 0, "{said:?}");
    let process = said.stdout.trim_end().to_owned();
    assert_eq!(said.stdout, format!("{process}\n"));
    let address = said
        .stderr
        .trim_end()
        .strip_prefix("listening on ")
        .unwrap()
        .to_owned();
    assert!(fetch(&address, "/one").ends_with("\r\n\r\nhello\n"));

    assert_eq!(world.run(["ps", "box", "-q"]).data(), said.stdout);
    assert_listed(&world, &process, &address);

    let mut follower = world
        .server
        .client(["logs", "box", &process, "-f"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(follower.stderr.take().unwrap()).lines();
    let mut wait_for = |wanted: &str| {
        assert!(
            stderr.any(|line| line.unwrap() == wanted),
            "{wanted:?} did not come"
        );
    };
    wait_for("asked for /one");
    fetch(&address, "/two");
    wait_for("asked for /two");

    assert_eq!(world.run(["kill", "box", &process]).data(), said.stdout);
    // The follower ends with the process.
    let mut output = String::new();
    follower
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    assert_eq!(
        (follower.wait().unwrap().code(), output.as_str()),
        (Some(0), "listening\n")
    );
    let ended = &listed(&world)[0];
    assert_eq!(
        (&ended["status"], &ended["exit"]["signal"]),
        (&"exited".into(), &15.into())
    );
    assert_eq!(ended["address"], Value::Null);
    assert!(
        world
            .run(["ps", "box"])
            .data()
            .contains("exited (signal 15")
    );
    TcpStream::connect(&address).unwrap_err();
    // Its last output is kept.
    let last = world.run(["logs", "box", &process, "--stderr", "--tail", "1"]);
    assert_eq!(
        (last.stdout.as_str(), last.stderr.as_str()),
        ("", "asked for /two\n")
    );
    assert_eq!(
        world.run(["logs", "box", &process, "--stdout"]).data(),
        "listening\n"
    );
}

#[test]
fn a_process_is_started_again_as_its_policy_says() {
    let world = World::new();
    world
        .run(["new", "--id", "box", "--env", "FROM_SESSION=1"])
        .data();
    let line = "echo $FROM_SESSION $FROM_CALL in $PWD; exit 3";
    let restart = [
        "--restart",
        "on-failure:2",
        "-e",
        "FROM_CALL=2",
        "--cwd",
        "/tmp",
    ];
    let process = world
        .run(
            ["launch", "box"]
                .iter()
                .chain(&restart)
                .chain(&["--", "sh", "-c", line]),
        )
        .word();
    let said = world.run(["logs", "box", &process, "-f"]).data();
    assert_eq!(said, "1 2 in /tmp\n".repeat(3));
    let ended = &listed(&world)[0];
    assert_eq!(
        (&ended["restarts"], &ended["exit"]["code"]),
        (&2.into(), &3.into())
    );
    assert!(world.run(["ps", "box"]).data().contains("exited (code 3)"));
}

#[test]
fn ctrl_c_leaves_the_logs_and_the_process_runs_on() {
    let world = World::new();
    world.sandbox("box");
    let process = world
        .run([
            "launch",
            "box",
            "--",
            "sh",
            "-c",
            "echo ready; exec sleep 600",
        ])
        .word();
    let mut follower = world
        .server
        .client(["logs", "box", &process, "-f"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(follower.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert_eq!(first, "ready\n");
    kill_process(
        Pid::from_raw(i32::try_from(follower.id()).unwrap()).unwrap(),
        Signal::INT,
    )
    .unwrap();
    assert!(!follower.wait().unwrap().success());
    assert_eq!(listed(&world)[0]["status"], "running");
    world.run(["kill", "box", &process, "-s", "SIGKILL"]).data();
    world.run(["logs", "box", &process, "-f"]).data();
    assert_eq!(listed(&world)[0]["exit"]["signal"], 9);
}

#[test]
fn failed_process_calls_are_refused_with_a_hint() {
    let world = World::new();
    world.sandbox("box");
    world
        .run(["launch", "box", "--", "no-such-program"])
        .refused(1, &["no-such-program"]);
    world
        .run(["launch", "gone", "--", "true"])
        .refused(1, &["gone"]);
    world
        .run(["launch", "box", "--ready", "tcp", "--", "true"])
        .refused(1, &["port", " — "]);
    world
        .run(["kill", "box", "unknown"])
        .refused(1, &["unknown"]);
    world
        .run(["logs", "box", "unknown"])
        .refused(1, &["unknown"]);
    world.run(["ps", "gone"]).refused(1, &["gone"]);
    let late = [
        "launch",
        "box",
        "--ready",
        "log:never",
        "--ready-timeout",
        "100ms",
        "--wait",
        "--",
    ];
    let said = world.run(
        late.iter()
            .chain(&["sh", "-c", "echo still busy; exec sleep 600"]),
    );
    assert_eq!(said.code, 1, "{said:?}");
    // It was launched: its id and its exit are reported.
    assert_eq!(world.run(["ps", "box", "-q"]).data(), said.stdout);
    assert!(
        said.stderr.starts_with("error: ") && said.stderr.contains("still busy"),
        "{said:?}"
    );
    assert_eq!(listed(&world)[0]["exit"]["not_ready"], true);
}
