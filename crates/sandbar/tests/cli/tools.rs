//! `tool`.

use serde_json::Value;

use crate::world::World;

#[test]
fn a_tool_is_called_with_json_and_answers_in_text() {
    let world = World::new();
    world.sandbox("box");
    let made = world
        .run([
            "tool",
            "box",
            "write_file",
            "--params",
            r#"{"path": "f", "content": "one\ntwo\n"}"#,
        ])
        .data();
    assert_eq!(made, "made `f`: 8 bytes\n");
    assert_eq!(
        world
            .run(["tool", "box", "read_file", "-p", r#"{"path": "f"}"#])
            .data(),
        "     1\tone\n     2\ttwo\n"
    );
    assert_eq!(
        world
            .run_with(
                br#"{"pattern": "two"}"#,
                &["tool", "box", "grep", "-p", "-"]
            )
            .data(),
        "f:2:two\n"
    );
    assert_eq!(
        world
            .run(["tool", "box", "list_dir"])
            .data()
            .lines()
            .count(),
        1
    );
}

#[test]
fn tool_output_is_printed_once_and_errors_on_stderr() {
    let world = World::new();
    world.sandbox("box");
    let said = world.run([
        "tool",
        "box",
        "bash",
        "-p",
        r#"{"cmd": "echo out; echo err >&2; exit 7"}"#,
    ]);
    assert_eq!(
        (said.code, said.stdout.as_str(), said.stderr.as_str()),
        (1, "out\n", "err\n")
    );
    let silent = world.run(["tool", "box", "bash", "-p", r#"{"cmd": "exit 7"}"#]);
    assert_eq!(
        (silent.code, silent.stdout.as_str(), silent.stderr.as_str()),
        (1, "", "[exit code 7, and no output]\n")
    );
    let long = world
        .run(["tool", "box", "bash", "-p", r#"{"cmd": "seq 1 300000"}"#])
        .data();
    assert!(long.starts_with("1\n2\n") && long.ends_with("299999\n300000\n"));
    assert_eq!(long.lines().count(), 300_000);
}

#[test]
fn a_named_call_is_done_once() {
    let world = World::new();
    world.sandbox("box");
    let call = [
        "tool",
        "box",
        "bash",
        "--call-id",
        "one",
        "--json",
        "-p",
        r#"{"cmd": "echo run >> f; cat f"}"#,
    ];
    let first = world.run(call).data();
    assert_eq!(world.run(call).data(), first);
    let answer: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(
        (&answer["content"], &answer["exit_code"], &answer["tier"]),
        (&"run\n".into(), &0.into(), &2.into())
    );
    assert_eq!(answer["is_error"], false);
}

#[test]
fn invalid_tool_calls_are_refused_with_a_hint() {
    let world = World::new();
    world.sandbox("box");
    world
        .run(["tool", "box", "nonsense"])
        .refused(1, &["nonsense", "read_file"]);
    world
        .run(["tool", "box", "read_file"])
        .refused(1, &["`path` is missing"]);
    world
        .run(["tool", "box", "read_file", "-p", r#"{"file": "x"}"#])
        .refused(1, &["path"]);
    world
        .run(["tool", "box", "read_file", "-p", "[1]"])
        .refused(2, &["not a JSON object"]);
    world
        .run(["tool", "gone", "list_dir"])
        .refused(1, &["gone"]);
    let missing = world.run(["tool", "box", "read_file", "-p", r#"{"path": "none"}"#]);
    assert_eq!((missing.code, missing.stdout.as_str()), (1, ""));
    assert!(
        missing.stderr.contains("does not exist"),
        "{}",
        missing.stderr
    );
}
