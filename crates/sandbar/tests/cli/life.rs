//! `pause`, `resume`, `ttl`, `hibernate`, `wake`, `audit`.

use serde_json::Value;

use crate::world::World;

fn state(world: &World) -> String {
    let session: Value =
        serde_json::from_str(&world.run(["inspect", "box", "--json"]).data()).unwrap();
    session["state"].as_str().unwrap().to_owned()
}

#[test]
fn paused_sandbox_refuses_work_until_resumed() {
    let world = World::new();
    world.run(["new", "--id", "box", "--idle", "1h"]).data();
    assert!(
        world
            .run(["inspect", "box"])
            .data()
            .contains("idle pause:  after 1h")
    );
    let process = world.run(["launch", "box", "--", "sleep", "600"]).word();
    assert_eq!(world.run(["pause", "box"]).data(), "box\n");
    assert_eq!(state(&world), "paused");
    world
        .run(["exec", "box", "--", "true"])
        .refused(1, &["paused", " — "]);
    world
        .run(["launch", "box", "--", "true"])
        .refused(1, &["paused"]);
    assert_eq!(world.run(["ps", "box", "-q"]).word(), process);
    assert_eq!(world.run(["resume", "box"]).data(), "box\n");
    assert_eq!(state(&world), "active");
    let listed: Value = serde_json::from_str(&world.run(["ps", "box", "--json"]).data()).unwrap();
    assert_eq!(listed[0]["status"], "running");
    world.run(["resume", "box"]).refused(1, &["box"]);
}

#[test]
fn a_sandbox_is_paused_with_its_files_only() {
    let world = World::new();
    world.sandbox("box");
    world.shell("box", "echo kept > file");
    world.run(["launch", "box", "--", "sleep", "600"]).word();
    assert_eq!(world.run(["pause", "--files", "box"]).data(), "box\n");
    assert_eq!(state(&world), "paused");
    assert_eq!(world.run(["resume", "box"]).data(), "box\n");
    assert_eq!(world.shell("box", "cat file"), "kept\n");
    let listed: Value = serde_json::from_str(&world.run(["ps", "box", "--json"]).data()).unwrap();
    assert_eq!(listed[0]["exit"]["reason"], "paused without memory");
}

#[test]
fn ttl_is_extended_and_removed() {
    let world = World::new();
    world
        .run(["new", "--id", "box", "--ttl", "1h", "--on-expiry", "pause"])
        .data();
    assert!(
        world
            .run(["inspect", "box"])
            .data()
            .contains(", then it is paused\n")
    );
    assert!(
        world
            .run(["ttl", "box", "2h"])
            .data()
            .contains("UTC, then it is paused\n")
    );
    let files = world
        .run(["ttl", "box", "2h", "--on-expiry", "pause-files"])
        .data();
    assert!(
        files.ends_with(", then it is paused without its processes\n"),
        "{files}"
    );
    assert!(
        world
            .run(["ttl", "box", "2h", "--on-expiry", "destroy"])
            .data()
            .ends_with(" UTC\n")
    );
    assert_eq!(world.run(["ttl", "box", "never"]).data(), "never\n");
    let session: Value =
        serde_json::from_str(&world.run(["inspect", "box", "--json"]).data()).unwrap();
    assert_eq!(
        (&session["expires"], &session["on_expiry"]),
        (&Value::Null, &"destroy".into())
    );
    world.run(["ttl", "unknown", "1h"]).refused(1, &["unknown"]);
    world.run(["ttl", "box", "soon"]).refused(2, &["soon"]);
}

#[test]
fn hibernated_sandbox_wakes_with_files_without_processes() {
    let world = World::new();
    world.sandbox("box");
    world.shell("box", "echo kept > file");
    world.run(["snapshot", "box", "before"]).data();
    world.shell("box", "echo later > file");
    world.run(["launch", "box", "--", "sleep", "600"]).word();
    assert_eq!(world.run(["hibernate", "box"]).data(), "box\n");
    assert_eq!(
        (
            state(&world).as_str(),
            world
                .run(["ls", "-q", "--state", "hibernated"])
                .word()
                .as_str()
        ),
        ("hibernated", "box")
    );
    world
        .run(["exec", "box", "--", "true"])
        .refused(1, &["hibernated", " — "]);
    assert_eq!(world.run(["wake", "box"]).data(), "box\n");
    assert_eq!(world.shell("box", "cat file"), "later\n");
    let listed: Value = serde_json::from_str(&world.run(["ps", "box", "--json"]).data()).unwrap();
    assert_eq!(
        (&listed[0]["status"], &listed[0]["exit"]["reason"]),
        (&"exited".into(), &"session hibernated".into())
    );
    world.run(["rollback", "box", "before"]).data();
    assert_eq!(world.shell("box", "cat file"), "kept\n");
}

#[test]
fn audit_log_has_caller_operation_and_outcome() {
    let world = World::new();
    world.sandbox("box");
    world.shell("box", "true");
    world
        .run(["rollback", "box", "never"])
        .refused(1, &["never"]);
    world.run(["rm", "box"]).data();
    let table = world.run(["audit", "box"]).data();
    assert_eq!(
        table
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["TIME", "WHO", "WHAT", "OUTCOME", "DETAIL"]
    );
    let entries: Value =
        serde_json::from_str(&world.run(["audit", "box", "--json"]).data()).unwrap();
    let entries = entries.as_array().unwrap();
    assert_eq!(table.lines().count(), entries.len() + 1);
    let told: Vec<(&str, &str)> = entries
        .iter()
        .map(|entry| {
            (
                entry["what"].as_str().unwrap(),
                entry["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    for expected in [
        ("create_session", "ok"),
        ("exec", "ok"),
        ("rollback_session", "SnapshotNotFound"),
        ("destroy_session", "ok"),
    ] {
        assert!(told.contains(&expected), "{expected:?} is not in {told:?}");
    }
    assert!(
        entries
            .iter()
            .all(|entry| entry["who"].as_str().unwrap().starts_with("token:")),
        "{entries:?}"
    );
    let last: Value =
        serde_json::from_str(&world.run(["audit", "box", "-n", "2", "--json"]).data()).unwrap();
    assert_eq!(last.as_array().unwrap(), &entries[entries.len() - 2..]);
    let head = entries.last().unwrap()["chain"].as_str().unwrap();
    let verdict = world.run(["audit", "box", "--verify"]).data();
    assert_eq!(
        verdict,
        format!("intact: {} entries, the last is {head}\n", entries.len())
    );
    world.run(["audit", "never-was"]).refused(1, &["never-was"]);
}
