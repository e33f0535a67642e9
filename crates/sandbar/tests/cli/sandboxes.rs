//! `new`, `ls`, `inspect`, `rm`, `fork`.

use serde_json::Value;

use crate::world::World;

#[test]
fn a_sandbox_is_made_listed_inspected_and_removed() {
    let world = World::new();
    let id = world
        .run([
            "new", "--label", "team=red", "--label", "note=a b", "--ttl", "1h",
        ])
        .word();
    assert_eq!(world.run(["ls", "-q"]).data(), format!("{id}\n"));
    let table = world.run(["ls"]).data();
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    let headings: Vec<_> = lines[0].split_whitespace().collect();
    assert_eq!(
        headings,
        [
            "ID",
            "STATE",
            "BASE",
            "CREATED",
            "USED",
            "TURNS",
            "SNAPSHOTS",
            "LABELS"
        ]
    );
    assert!(
        lines[1].starts_with(&id)
            && lines[1].contains("active")
            && lines[1].ends_with("note=a b,team=red"),
        "{table}"
    );
    let shown = world.run(["inspect", &id]).data();
    for part in [
        "state:       active",
        "base:        host",
        "expires:",
        "runtime:     none",
        "isolation:",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert_eq!(world.run(["rm", &id]).data(), format!("{id}\n"));
    assert_eq!(world.run(["ls", "-q"]).data(), "");
}

#[test]
fn json_listings_have_the_fields_of_the_api() {
    let world = World::new();
    world.run(["new", "--id", "one", "--label", "k=v"]).data();
    let listed: Value = serde_json::from_str(&world.run(["ls", "--json"]).data()).unwrap();
    let session = &listed[0];
    assert_eq!(session["session_id"], "one");
    assert_eq!(session["state"], "active");
    assert_eq!(session["base_snapshot"], "host");
    assert_eq!(session["labels"]["k"], "v");
    assert_eq!(session["storage_backend"], "local-disk");
    assert_eq!(session["container_runtime"], "none");
    assert_eq!(session["turn_count"], 0);
    assert_eq!(session["expires"], Value::Null);
    let inspected: Value =
        serde_json::from_str(&world.run(["inspect", "one", "--json"]).data()).unwrap();
    assert_eq!(inspected["created"], session["created"]);
    assert_eq!(
        world.run(["ls", "--json", "--label", "k=other"]).data(),
        "[]\n"
    );
}

#[test]
fn verbs_that_change_something_print_json_on_request() {
    let world = World::new();
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&world.run(arguments).data()).unwrap()
    };
    assert_eq!(json(&["new", "--id", "one", "--json"])["session_id"], "one");
    world.shell("one", "echo text > file");
    assert_eq!(
        json(&["snapshot", "one", "first", "--json"])["name"],
        "first"
    );
    assert_eq!(json(&["turn", "one", "--json"])["kind"], "turn");
    assert_eq!(
        json(&["fork", "one", "-n", "2", "--json"])
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        json(&["rollback", "one", "first", "--json"])["session_id"],
        "one"
    );
    let process = json(&["launch", "one", "--json", "--wait", "--", "sleep", "600"]);
    assert_eq!(
        (&process["session_id"], &process["status"]),
        (&"one".into(), &"running".into())
    );
    let used = json(&["inspect", "one", "--json"]);
    assert_eq!(used["usage"]["processes"], 1, "{used}");
    let process = process["process_id"].as_str().unwrap().to_owned();
    assert_eq!(
        json(&["kill", "one", &process, "--json"])["process_id"],
        process.as_str()
    );
    assert_eq!(json(&["pause", "one", "--json"])[0]["state"], "paused");
    assert_eq!(json(&["resume", "one", "--json"])[0]["state"], "active");
    assert_eq!(
        json(&["base", "import", "again", "host", "--json"])["name"],
        "again"
    );
    assert!(json(&["tool", "--list", "--json"])[0]["parameters"].is_object());
}

#[test]
fn listings_can_be_only_names() {
    let world = World::new();
    world.sandbox("one");
    world.run(["snapshot", "one", "first"]).data();
    world.shell("one", "echo text > file");
    assert_eq!(
        world.run(["diff", "one", "first", "-q"]).data(),
        "/workspace/file\n"
    );
    let numbers = world.run(["audit", "one", "-q"]).data();
    assert!(
        numbers.lines().count() >= 3 && numbers.lines().all(|line| line.parse::<u64>().is_ok()),
        "{numbers}"
    );
    assert!(
        world
            .run(["tool", "--list", "-q"])
            .data()
            .lines()
            .any(|name| name == "read_file")
    );
    assert!(world.run(["tool", "--list"]).data().starts_with("NAME "));
}

#[test]
fn listings_are_filtered_by_label_and_state() {
    let world = World::new();
    world
        .run(["new", "--id", "red", "--label", "team=red"])
        .data();
    world
        .run(["new", "--id", "blue", "--label", "team=blue"])
        .data();
    assert_eq!(
        world.run(["ls", "-q", "--label", "team=blue"]).data(),
        "blue\n"
    );
    assert_eq!(
        world.run(["ls", "-q", "--state", "active"]).data(),
        "red\nblue\n"
    );
    assert_eq!(world.run(["ls", "-q", "--state", "paused"]).data(), "");
}

#[test]
fn new_with_taken_id_or_unknown_base_creates_nothing() {
    let world = World::new();
    world.sandbox("taken");
    world.run(["new", "--id", "taken"]).refused(1, &["taken"]);
    world
        .run(["new", "--base", "unknown"])
        .refused(1, &["unknown", " — "]);
    world
        .run(["new", "--label", "=x"])
        .refused(2, &["KEY=VALUE"]);
    assert_eq!(world.ids(), ["taken"]);
}

#[test]
fn unknown_sandboxes_are_named_and_the_rest_is_still_removed() {
    let world = World::new();
    world.sandbox("here");
    world.run(["inspect", "gone"]).refused(1, &["gone"]);
    let said = world.run(["rm", "gone", "here"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, "here\n"), "{said:?}");
    assert!(said.stderr.contains("gone"), "{said:?}");
    assert!(world.ids().is_empty());
}

#[test]
fn forks_start_from_the_source_and_go_their_own_way() {
    let world = World::new();
    world
        .run(["new", "--id", "source", "--label", "team=red"])
        .data();
    world.shell("source", "echo one > file");
    world.run(["snapshot", "source", "first"]).data();
    world.shell("source", "echo two > file");
    let ids = world
        .run(["fork", "source", "-n", "2", "--label", "try=now"])
        .data();
    let ids: Vec<_> = ids.lines().collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(
        world
            .run(["fork", "source", "--from", "first", "--id", "old"])
            .word(),
        "old"
    );
    world.shell(ids[0], "echo three > file");
    assert_eq!(world.shell(ids[0], "cat file"), "three\n");
    assert_eq!(world.shell(ids[1], "cat file"), "two\n");
    assert_eq!(world.shell("old", "cat file"), "one\n");
    assert_eq!(world.shell("source", "cat file"), "two\n");
    assert!(
        world
            .run(["inspect", "old"])
            .data()
            .contains("source at first")
    );
    assert_eq!(
        world
            .run(["ls", "-q", "--label", "team=red", "--label", "try=now"])
            .data()
            .lines()
            .count(),
        2
    );
}

#[test]
fn invalid_fork_is_refused_and_creates_nothing() {
    let world = World::new();
    world.sandbox("source");
    world.run(["fork", "missing"]).refused(1, &["missing"]);
    world
        .run(["fork", "source", "--from", "never"])
        .refused(1, &["never"]);
    world
        .run(["fork", "source", "-n", "3", "--id", "only-one"])
        .refused(1, &[" — "]);
    world
        .run(["fork", "source", "--id", "source"])
        .refused(1, &["source"]);
    assert_eq!(world.ids(), ["source"]);
}
