//! `bench` and `env`.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use sandbar_testing::eventually;
use serde_json::Value;

use crate::world::World;

#[test]
fn bench_measures_everything_and_leaves_nothing() {
    let world = World::new();
    let report: Value = serde_json::from_str(&world.run(["bench", "--json"]).data()).unwrap();
    let names: Vec<_> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["name"])
        .collect();
    assert_eq!(
        names,
        [
            "life",
            "create",
            "exec",
            "tool_call",
            "snapshot",
            "rollback",
            "fork",
            "create_20"
        ]
    );
    for result in report["results"].as_array().unwrap() {
        assert!(result["median_seconds"].as_f64().unwrap() > 0.0, "{result}");
        assert!(
            result["ratios"][0]["ratio"].as_f64().unwrap() > 0.0,
            "{result}"
        );
    }
    assert_eq!(report["baselines"][0]["name"], "process");
    assert_eq!(report["host"]["storage_backend"], "local-disk");
    assert!(world.ids().is_empty());
}

#[test]
fn bench_tidies_up_when_it_is_interrupted() {
    let world = World::new();
    let mut child = world
        .server
        .client(["bench"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it has made a sandbox", || !world.ids().is_empty());
    kill_process(
        Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
        Signal::INT,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(world.ids().is_empty());
}

#[test]
fn bench_with_an_unknown_base_is_refused() {
    let world = World::new();
    world
        .run(["bench", "--base", "unknown"])
        .refused(1, &["unknown"]);
}

#[test]
fn env_prints_variables_for_shell_and_programs() {
    let world = World::new();
    world.sandbox("box");
    let lines = world.run(["env"]).data();
    let script = format!("{lines}unset SANDBAR_DATA_DIR\nexec \"$0\" ls -q");
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &script, crate::world::binary()])
        .env_remove("SANDBAR_DATA_DIR");
    let output = shell.output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "box\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let variables: Value = serde_json::from_str(&world.run(["env", "--json"]).data()).unwrap();
    assert_eq!(variables["SANDBAR_URL"], world.server.url());
    assert_eq!(variables["SANDBAR_TOKEN"].as_str().map(str::len), Some(64));
    for name in ["E2B_API_URL", "E2B_SANDBOX_URL"] {
        assert_eq!(variables[name], world.server.url(), "{name}");
    }
    let key = variables["E2B_API_KEY"]
        .as_str()
        .unwrap()
        .strip_prefix("e2b_")
        .unwrap();
    assert!(
        key.len() == 128 && key.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{key}"
    );
    assert_eq!(variables.get("E2B_DOMAIN"), None);
    assert_eq!(
        world.run(["env", "--unset"]).data(),
        "unset SANDBAR_URL SANDBAR_TOKEN SANDBAR_CA_FILE E2B_API_URL E2B_SANDBOX_URL E2B_DOMAIN E2B_API_KEY\n"
    );
    let elsewhere = world.run(["--url", "http://example.com/it's", "env"]);
    assert!(
        elsewhere
            .stdout
            .starts_with("export SANDBAR_URL='http://example.com/it'\\''s'\n"),
        "{elsewhere:?}"
    );
    assert!(
        !elsewhere.stdout.contains("TOKEN") && !elsewhere.stdout.contains("KEY"),
        "{elsewhere:?}"
    );
    assert!(
        elsewhere.stderr.contains("no token for http://example.com"),
        "{elsewhere:?}"
    );
}
