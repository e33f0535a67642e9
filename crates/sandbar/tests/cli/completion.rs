//! `completion`: the scripts; `screen/tab.rs` tests the tab key.

use std::process::Command;

use sandbar_testing::report_skip;

use crate::world::{World, alone, binary};

#[test]
fn bash_loads_the_script_and_asks_the_program() {
    let world = World::new();
    world.sandbox("box");
    let script = r#"
        set -u
        source <("$1" completion bash)
        COMP_LINE="$1 exec b" COMP_POINT=$((${#1} + 7)) COMP_WORDS=("$1" exec b) COMP_CWORD=2
        _sandbar "$1" b exec
        printf '%s\n' "${COMPREPLY[@]}"
        complete -p sandbar
    "#;
    let mut client = world.server.client([""; 0]);
    let variables: Vec<_> = client
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    client = Command::new("bash");
    client
        .args(["-c", script, "bash", binary()])
        .envs(variables);
    let output = client.output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "box\ncomplete -F _sandbar sandbar\n"
    );
}

#[test]
fn other_shells_can_read_their_scripts() {
    for shell in ["zsh", "fish"] {
        let script = alone(["completion", shell]).data();
        assert!(script.contains(&format!("__complete {shell}")), "{script}");
        let path = sandbar_testing::tree::scratch();
        let file = path.path().join("script");
        std::fs::write(&file, script).unwrap();
        match Command::new(shell).arg("-n").arg(&file).output() {
            Ok(output) => {
                assert!(
                    output.status.success(),
                    "{shell}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            Err(_) => report_skip(
                &format!("completion in {shell}"),
                "the shell is not installed",
            ),
        }
    }
}

#[test]
fn completions_have_descriptions_and_need_no_host() {
    let output = |arguments: &[&str]| {
        let mut call = crate::world::alone_command(arguments);
        call.env("SANDBAR_URL", "http://127.0.0.1:1")
            .env("SANDBAR_DATA_DIR", "/no/such/dir");
        let said = call.output().unwrap();
        assert_eq!(
            (said.status.code(), said.stderr.as_slice()),
            (Some(0), &b""[..]),
            "{arguments:?}"
        );
        String::from_utf8(said.stdout).unwrap()
    };
    let verbs = output(&["__complete", "fish", "sandbar", "sn"]);
    let lines: Vec<_> = verbs.lines().collect();
    assert_eq!(lines[0], "words");
    assert!(lines[1].starts_with("snapshot\tTake a snapshot"), "{verbs}");
    assert_eq!(
        output(&["__complete", "zsh", "sandbar", "exec", ""]),
        "words\n"
    );
    assert_eq!(
        output(&["__complete", "zsh", "sandbar", "up", "--config", ""]),
        "files\n"
    );
    for nonsense in [
        &["__complete"][..],
        &["__complete", "csh", "x"],
        &["__complete", "bash"],
        &["__complete", "zsh"],
    ] {
        assert_eq!(output(nonsense), "", "{nonsense:?}");
    }
}
