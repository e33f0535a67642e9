//! Verbs without a host: help, usage errors, `doctor`.

use sandbar_testing::tree::scratch;

use crate::world::{Said, alone, alone_command, binary};

const VERBS: &[&str] = &[
    "up",
    "doctor",
    "new",
    "run",
    "exec",
    "shell",
    "cp",
    "ls",
    "inspect",
    "rm",
    "pause",
    "resume",
    "hibernate",
    "wake",
    "ttl",
    "snapshot",
    "snapshots",
    "rollback",
    "fork",
    "diff",
    "turn",
    "launch",
    "ps",
    "kill",
    "logs",
    "tool",
    "network",
    "secret",
    "token",
    "base",
    "audit",
    "top",
    "bench",
    "env",
    "completion",
    "man",
    "attach",
    "events",
    "watch",
    "mcp",
];

#[test]
fn help_lists_every_verb_and_each_verb_explains_itself() {
    let help = alone(["--help"]).data();
    for &verb in VERBS {
        assert!(
            help.contains(&format!("\n  {verb} ")),
            "{verb} is not in {help}"
        );
        let own = alone([verb, "--help"]).data();
        assert!(own.contains("Usage: sandbar "), "{verb}: {own}");
    }
    assert!(help.contains("Exit codes:"), "{help}");
}

#[test]
fn man_pages_exist_for_every_verb() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    alone(["man", pages.to_str().unwrap()]).data();
    for &verb in VERBS {
        let page = std::fs::read_to_string(pages.join(format!("sandbar-{verb}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{verb}: {page}");
    }
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(
        alone(["--version"]).data(),
        format!("sandbar {}\n", env!("CARGO_PKG_VERSION"))
    );
}

/// Command lines that are refused without a connection.
const WRONG_USAGE: &[&[&str]] = &[
    &["fly"],
    &["new", "--quota", "lots"],
    &["new", "--quota", "0"],
    &["new", "--id", "../etc"],
    &["new", "--label", "plain"],
    &["new", "--ttl", "soon"],
    &["new", "--cpus", "-1"],
    &["new", "--network", "some"],
    &["new", "--network", "@/no/such/file"],
    &["new", "--inject", "api.example X-Key: {key}"],
    &[
        "new",
        "--network",
        "full",
        "--inject",
        "api.example X-Key: key",
    ],
    &["new", "--base", "a/b"],
    &["exec", "box"],
    &["exec", "a/b", "--", "true"],
    &["exec", "box", "--timeout", "0s", "--", "true"],
    &["exec", "box", "--env", "novalue", "--", "true"],
    &["exec", "box", "-t", "--", "true"],
    &["exec", "-it", "box", "--", "true"],
    &["run"],
    &["run", "-it", "--", "true"],
    &["shell"],
    &["shell", "box"],
    &["run", "-v", "nowhere", "--", "true"],
    &["cp", "only-one"],
    &["ls", "--state", "asleep"],
    &["ls", "-q", "--json"],
    &["inspect"],
    &["rm"],
    &["snapshot"],
    &["snapshot", "box", "a/b"],
    &["snapshots", ".."],
    &["rollback", "box"],
    &["fork", "box", "-n", "0"],
    &["fork", "box", "-n", "1001"],
    &["diff", "box"],
    &["turn", ""],
    &["pause"],
    &["wake", "a/b"],
    &["launch", "box"],
    &["launch", "box", "--port", "0", "--", "true"],
    &["launch", "box", "--port", "70000", "--", "true"],
    &["launch", "box", "--ready", "udp", "--", "true"],
    &["launch", "box", "--ready", "http:health", "--", "true"],
    &["launch", "box", "--ready-timeout", "soon", "--", "true"],
    &["launch", "box", "--restart", "maybe", "--", "true"],
    &["ps"],
    &["ps", "box", "-q", "--json"],
    &["kill", "box"],
    &["kill", "box", "p", "-s", "NOTHING"],
    &["logs", "box"],
    &["logs", "box", "p", "--tail", "-1"],
    &["logs", "box", "p", "--stdout", "--stderr"],
    &["audit"],
    &["audit", "box", "-n", "many"],
    &["audit", "box", "--verify", "--json"],
    &["network"],
    &["network", "box", "get"],
    &["network", "box", "set"],
    &["network", "box", "set", "allow="],
    &["network", "box", "--inject", "api.example X-Key: {key}"],
    &["secret", "set"],
    &["secret", "set", "a/b"],
    &["secret", "set", "name", "value"],
    &["top", "--sort", "beauty"],
    &["top", "--interval", "0s"],
    &["env", "--unset", "--json"],
    &["completion"],
    &["completion", "csh"],
    &["tool", "box"],
    &["tool", "--list", "box", "grep"],
    &["tool", "box", "grep", "-q"],
    &["diff", "box", "snap", "-q", "--json"],
    &["secret", "rm"],
    &["token", "new", "ci"],
    &["token", "new", "--scope", "read"],
    &["token", "new", "a/b", "--scope", "read"],
    &["token", "new", "ci", "--scope", "write"],
    &["token", "new", "ci", "--scope", "read", "--expires", "soon"],
    &["token", "new", "ci", "--scope", "read", "--expires", "0s"],
    &["token", "ls", "-q", "--json"],
    &["token", "rm"],
    &["tool", "box"],
    &["tool", "box", "bash", "--params", "cmd"],
    &["base", "import", "name"],
    &["base", "rm"],
    &["up", "--listen", "nowhere"],
];

#[test]
fn wrong_usage_exits_with_2_and_a_message() {
    for &arguments in WRONG_USAGE {
        let said = alone(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {said:?}");
        assert_eq!(said.stdout, "", "{arguments:?}");
        assert!(
            said.stderr.starts_with("error: "),
            "{arguments:?}: {said:?}"
        );
    }
}

#[test]
fn a_refused_value_carries_its_hint() {
    let said = alone(["new", "--id", "a b"]);
    assert!(
        said.stderr.contains("session id `a b` contains ` `"),
        "{said:?}"
    );
    assert!(said.stderr.contains("for example `build-42`"), "{said:?}");
}

#[test]
fn every_verb_that_needs_a_host_says_how_to_start_one() {
    let empty = scratch();
    // A port that was just closed: nothing listens there.
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for arguments in [
        vec!["new"],
        vec!["run", "--", "true"],
        vec!["exec", "box", "--", "true"],
        vec!["cp", "x", "box:y"],
        vec!["ls"],
        vec!["inspect", "box"],
        vec!["rm", "box"],
        vec!["snapshot", "box"],
        vec!["snapshots", "box"],
        vec!["rollback", "box", "snap"],
        vec!["fork", "box"],
        vec!["diff", "box", "snap"],
        vec!["turn", "box"],
        vec!["pause", "box"],
        vec!["wake", "box"],
        vec!["ttl", "box", "1h"],
        vec!["launch", "box", "--", "true"],
        vec!["ps", "box"],
        vec!["kill", "box", "p"],
        vec!["logs", "box", "p"],
        vec!["audit", "box"],
        vec!["tool", "box", "list_dir"],
        vec!["network", "box"],
        vec!["network", "box", "set", "none"],
        vec!["secret", "set", "name"],
        vec!["secret", "ls"],
        vec!["secret", "rm", "name"],
        vec!["token", "new", "name", "--scope", "read"],
        vec!["token", "ls"],
        vec!["token", "rm", "name"],
        vec!["base", "ls"],
        vec!["base", "import", "name", "host"],
        vec!["base", "rm", "name"],
        vec!["top"],
        vec!["top", "--json"],
        vec!["bench"],
        vec!["tool", "--list"],
    ] {
        let output = alone_command(&arguments)
            .env("SANDBAR_DATA_DIR", empty.path())
            .env("SANDBAR_URL", format!("http://{address}"))
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.contains(&format!("http://{address}")),
            "{stderr}"
        );
        assert!(stderr.contains("sandbar up"), "{stderr}");
    }
}

#[test]
fn invalid_url_is_refused_with_an_example() {
    for url in ["nonsense", "ftp://127.0.0.1"] {
        alone(["--url", url, "ls"]).refused(1, &["http://127.0.0.1:9100"]);
    }
}

#[test]
fn missing_terminal_is_refused_with_a_hint() {
    // Checked before connecting: a missing host must not hide it.
    alone(["exec", "box", "-it", "--", "true"])
        .refused(2, &["`-t` needs a terminal", "leave `-t` out"]);
    alone(["run", "-t", "--", "true"]).refused(2, &["`-t` needs a terminal", "leave `-t` out"]);
    alone(["shell", "box"]).refused(2, &["`shell` needs a terminal", "sandbar exec ID -- sh"]);
}

#[test]
fn doctor_works_without_a_host_and_leaves_nothing_behind() {
    let directory = scratch();
    let data_dir = directory.path().join("not/there/yet");
    let said = alone_command(["doctor", "--data-dir", data_dir.to_str().unwrap()])
        .env("SANDBAR_URL", "http://127.0.0.1:1")
        .env("SANDBAR_CONTAINER_RUNTIME", "none")
        .output()
        .unwrap();
    let stdout = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(0), "{stdout}");
    for part in [
        "storage\n",
        "local-disk",
        "btrfs",
        "zfs",
        "runtime\n",
        "gvisor",
        "native",
        "none",
        "network\n",
        "egress",
        "overlayfs",
        "cgroups",
        "landlock",
        "configuration\n",
        "server\n",
    ] {
        assert!(stdout.contains(part), "{part:?} is not in {stdout}");
    }
    assert!(stdout.contains("the flag --data-dir"), "{stdout}");
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        0,
        "doctor left something behind"
    );
}

#[test]
fn doctor_prints_facts_as_json() {
    let directory = scratch();
    let mut command = alone_command([
        "doctor",
        "--json",
        "--data-dir",
        directory.path().to_str().unwrap(),
    ]);
    let output = Said::from_output(
        command
            .env("SANDBAR_CONTAINER_RUNTIME", "none")
            .output()
            .unwrap(),
    )
    .data();
    let report: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(report["usable"], true);
    assert_eq!(report["configuration"]["listen"]["value"], "127.0.0.1:9100");
    assert_eq!(
        report["configuration"]["data_dir"]["origin"],
        "the flag --data-dir"
    );
    let storage: Vec<_> = report["findings"]["storage"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| &found["name"])
        .collect();
    assert_eq!(storage, ["btrfs", "zfs", "local-disk"]);
    let runtimes = report["findings"]["runtime"].as_array().unwrap();
    assert_eq!(
        runtimes
            .iter()
            .map(|found| &found["name"])
            .collect::<Vec<_>>(),
        ["gvisor", "native", "none"]
    );
    for found in runtimes {
        let explained = found["status"] == "ok" || found["fix"].is_string();
        assert!(
            explained
                && found["detail"]
                    .as_str()
                    .is_some_and(|detail| !detail.is_empty()),
            "{found}"
        );
    }
    assert_eq!(runtimes[2]["status"], "ok");
}

#[test]
fn doctor_exits_with_1_if_no_host_could_start() {
    let said = alone_command(["doctor", "--data-dir", "/proc/nowhere"])
        .env("SANDBAR_URL", "http://127.0.0.1:1")
        .output()
        .unwrap();
    let stdout = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("fix: "), "{stdout}");
}

#[test]
fn closed_stdout_is_not_reported() {
    let line = format!("{} --help | true; exit ${{PIPESTATUS[0]}}", binary());
    let output = std::process::Command::new("bash")
        .args(["-c", &line])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
