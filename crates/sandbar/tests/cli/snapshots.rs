//! `snapshot`, `snapshots`, `rollback`, `diff`, `turn`.

use serde_json::Value;

use crate::world::World;

#[test]
fn rollback_restores_the_files_of_a_snapshot() {
    let world = World::new();
    world.sandbox("box");
    world.shell("box", "mkdir dir; echo kept > dir/file; chmod 640 dir/file");
    assert_eq!(world.run(["snapshot", "box", "before"]).data(), "before\n");
    world.shell("box", "rm -r dir; echo new > other");
    let said = world.run(["rollback", "box", "before"]);
    assert_eq!(
        (said.code, said.stdout.as_str(), said.stderr.as_str()),
        (0, "", "rolled back box to before\n")
    );
    assert_eq!(
        world.shell("box", "cat dir/file; stat -c %a dir/file; ls"),
        "kept\n640\ndir\n"
    );
}

#[test]
fn snapshots_are_listed_with_kind_and_parent() {
    let world = World::new();
    world.sandbox("box");
    world.run(["snapshot", "box", "first"]).data();
    assert_eq!(world.run(["turn", "box"]).data(), "turn-0001\n");
    let generated = world.run(["snapshot", "box"]).word();
    assert_eq!(
        world.run(["snapshots", "box", "-q"]).data(),
        format!("first\nturn-0001\n{generated}\n")
    );
    let table = world.run(["snapshots", "box"]).data();
    assert!(table.starts_with("NAME"), "{table}");
    let listed: Value =
        serde_json::from_str(&world.run(["snapshots", "box", "--json"]).data()).unwrap();
    assert_eq!(
        (&listed[0]["kind"], &listed[1]["kind"]),
        (&Value::from("named"), &Value::from("turn"))
    );
    assert_eq!(listed[1]["parent"], "first");
}

#[test]
fn turn_numbers_do_not_repeat_after_a_rollback() {
    let world = World::new();
    world.sandbox("box");
    world.run(["turn", "box"]).data();
    world.run(["turn", "box"]).data();
    world.run(["rollback", "box", "turn-0001"]).data();
    assert_eq!(world.run(["turn", "box"]).data(), "turn-0003\n");
}

#[test]
fn later_snapshots_go_unless_they_are_kept() {
    let world = World::new();
    world.sandbox("box");
    for name in ["a", "b", "c"] {
        world.run(["snapshot", "box", name]).data();
    }
    world.run(["rollback", "box", "b", "--keep-later"]).data();
    assert_eq!(world.run(["snapshots", "box", "-q"]).data(), "a\nb\nc\n");
    world.run(["rollback", "box", "a"]).data();
    assert_eq!(world.run(["snapshots", "box", "-q"]).data(), "a\n");
}

#[test]
fn diff_prints_one_escaped_line_for_each_path() {
    let world = World::new();
    world.sandbox("box");
    world.shell("box", "echo 1 > changed; echo 1 > gone; mkdir kept");
    world.run(["snapshot", "box", "before"]).data();
    world.shell(
        "box",
        r#"echo 22 > changed; rm gone; mkdir -p made/deep; touch "$(printf 'new\nline')" "$(printf 'b\377d')""#,
    );
    let said = world.run(["diff", "box", "before"]).data();
    assert_eq!(
        said,
        "A /workspace/b\\xffd\nM /workspace/changed\nD /workspace/gone\nA /workspace/made/\nA /workspace/made/deep/\nA /workspace/new\\nline\n"
    );
    world.run(["snapshot", "box", "after"]).data();
    assert_eq!(world.run(["diff", "box", "before", "after"]).data(), said);
    assert_eq!(world.run(["diff", "box", "after"]).data(), "");
}

#[test]
fn diff_as_json_carries_every_path_exactly() {
    let world = World::new();
    world.sandbox("box");
    world.run(["snapshot", "box", "before"]).data();
    world.shell(
        "box",
        r#"printf abc > "$(printf 'new\nline')"; touch "$(printf '\377')""#,
    );
    let changes: Value =
        serde_json::from_str(&world.run(["diff", "box", "before", "--json"]).data()).unwrap();
    let plain = changes
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["path"] == "/workspace/new\nline")
        .unwrap();
    assert_eq!(
        (&plain["kind"], &plain["entry"], &plain["size"]),
        (&"added".into(), &"file".into(), &3.into())
    );
    // `/workspace/` and the byte 0xff.
    assert!(
        changes
            .as_array()
            .unwrap()
            .iter()
            .any(|change| change["path_base64"] == "L3dvcmtzcGFjZS//"),
        "{changes}"
    );
}

#[test]
fn unknown_names_are_reported_and_nothing_changes() {
    let world = World::new();
    world.sandbox("box");
    world.shell("box", "echo kept > file");
    world.run(["snapshot", "box", "one"]).data();
    world.run(["snapshot", "box", "one"]).refused(1, &["one"]);
    world
        .run(["rollback", "box", "never"])
        .refused(1, &["never"]);
    world.run(["diff", "box", "never"]).refused(1, &["never"]);
    world
        .run(["diff", "box", "one", "never"])
        .refused(1, &["never"]);
    for arguments in [
        ["snapshot", "gone"],
        ["snapshots", "gone"],
        ["turn", "gone"],
    ] {
        world.run(arguments).refused(1, &["gone"]);
    }
    world.run(["rollback", "gone", "one"]).refused(1, &["gone"]);
    assert_eq!(world.shell("box", "cat file"), "kept\n");
}
