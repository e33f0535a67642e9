//! `network`, `secret`, `new --network` and `--inject`.

use std::fs;

use sandbar_testing::{Pty, Seat, tree::scratch};
use serde_json::{Value, json};

use crate::world::World;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_policy_from_a_file_is_shown_and_changed() {
    let world = World::new();
    let directory = scratch();
    // The runtime `none` cannot enforce a policy; one that is not required is accepted and reported
    // as not enforced.
    let policy = json!({"allow_list": ["example.com", "*.example.org:443"], "required": false});
    fs::write(directory.path().join("policy.json"), policy.to_string()).unwrap();
    let made = world.run_in(
        directory.path(),
        &["new", "--id", "box", "--network", "@policy.json"],
    );
    assert_eq!(made.word(), "box");
    let shown = world.run(["network", "box"]).data();
    for part in [
        "policy:      allow=example.com,*.example.org:443",
        "enforced:    no: ",
        "sent:        0",
        "denied:      0",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    let inspected = world.run(["inspect", "box"]).data();
    assert!(
        inspected.contains("network:     allow=example.com,*.example.org:443 (enforced: no: "),
        "{inspected}"
    );
    let status = parsed(&world.run(["network", "box", "--json"]).data());
    assert_eq!(
        (&status["session_id"], &status["enforced"]),
        (&json!("box"), &json!(false))
    );
    assert_eq!(status["network"]["allow_list"], policy["allow_list"]);
    assert_eq!(status["traffic"]["connections"], 0);

    // `@FILE` reads the output of `--json`.
    fs::write(
        directory.path().join("again.json"),
        status["network"].to_string(),
    )
    .unwrap();
    world
        .run_in(directory.path(), &["network", "box", "set", "@again.json"])
        .data();
    assert!(
        world
            .run(["network", "box", "set", "full"])
            .data()
            .contains("policy:      full")
    );
    let session = parsed(&world.run(["inspect", "box", "--json"]).data());
    assert_eq!(session["network"]["allow_outbound"], true);
    let audit = world.run(["audit", "box"]).data();
    assert!(
        audit.contains("set_network") && audit.contains("network=full"),
        "{audit}"
    );
}

#[test]
fn unenforceable_policies_are_refused_with_a_hint() {
    let world = World::new();
    world
        .run(["new", "--network", "allow=example.com"])
        .refused(1, &["runtime `none`", "required"]);
    world.sandbox("box");
    world
        .run(["network", "box", "set", "none"])
        .refused(1, &["runtime `none`"]);
    world.run(["network", "gone"]).refused(1, &["gone"]);
    world
        .run([
            "new",
            "--network",
            "full",
            "--inject",
            "api.example Authorization: Bearer {key}",
        ])
        .refused(1, &["runtime `none`"]);
    assert_eq!(world.ids(), ["box"]);
}

#[test]
fn a_policy_may_name_only_secrets_there_are() {
    let world = World::new();
    let directory = scratch();
    fs::write(
        directory.path().join("loose.json"),
        r#"{"allow_list": ["api.example"], "required": false}"#,
    )
    .unwrap();
    let arguments = [
        "new",
        "--id",
        "box",
        "--network",
        "@loose.json",
        "--inject",
        "api.example Authorization: Bearer {key}",
        "--inject",
        "api.example:8443 X-Key: {key}",
    ];
    world.run_in(directory.path(), &arguments).refused(
        1,
        &["secret `key` does not exist", "sandbar secret set key"],
    );
    assert_eq!(
        world
            .run_with(b"hunter2\n", &["secret", "set", "key"])
            .word(),
        "key"
    );
    assert_eq!(world.run_in(directory.path(), &arguments).word(), "box");
    let shown = world.run(["network", "box"]).data();
    for part in [
        "inject:      api.example Authorization: Bearer {key}",
        "inject:      api.example:8443 X-Key: {key}",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    // A secret may be deleted while a policy names it.
    assert_eq!(world.run(["secret", "rm", "key"]).data(), "key\n");
    world.run(["network", "box"]).data();
}

#[test]
fn secrets_come_from_stdin_and_are_shown_by_name_only() {
    let world = World::new();
    assert_eq!(
        world
            .run_with(b"hunter-one", &["secret", "set", "b"])
            .word(),
        "b"
    );
    assert_eq!(
        world
            .run_with(b"hunter-two\r\n", &["secret", "set", "a"])
            .word(),
        "a"
    );
    assert_eq!(world.run(["secret", "ls", "-q"]).data(), "a\nb\n");
    let table = world.run(["secret", "ls"]).data();
    assert!(
        table.starts_with("NAME") && table.lines().count() == 3,
        "{table}"
    );
    let listed = world.run(["secret", "ls", "--json"]).data();
    assert_eq!(parsed(&listed)[0]["name"], "a");
    assert!(!listed.contains("hunter") && !table.contains("hunter"));
    for bad in [&b""[..], b"\n", b"two\nlines", b"\xff"] {
        world
            .run_with(bad, &["secret", "set", "c"])
            .refused(2, &["the secret", " — "]);
    }
    let said = world.run(["secret", "rm", "gone", "a"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, "a\n"), "{said:?}");
    assert!(said.stderr.contains("gone"), "{said:?}");
    assert_eq!(world.run(["secret", "ls", "-q"]).data(), "b\n");
}

#[test]
fn a_secret_typed_at_a_terminal_is_not_shown() {
    let world = World::new();
    let fresh = Pty::open(24, 80).modes();
    let mut seat = Seat::start(world.server.client(["secret", "set", "key"]), 24, 80);
    seat.see("value of `key`: ");
    seat.press("hunter2\r");
    seat.see("\r\nkey\r\n");
    assert_eq!(seat.finish(), Some(0));
    assert_eq!(seat.screen(), "value of `key`: \r\nkey\r\n");
    assert_eq!(seat.pty().modes(), fresh);

    let mut seat = Seat::start(world.server.client(["secret", "set", "other"]), 24, 80);
    seat.see("value of `other`: ");
    seat.press("half\x03");
    assert_eq!(seat.finish(), Some(130));
    assert_eq!(seat.pty().modes(), fresh);
    assert_eq!(world.run(["secret", "ls", "-q"]).data(), "key\n");
}
