//! `events` and `watch`.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout, Stdio},
};

use serde_json::Value;

use crate::world::World;

/// Running command that prints lines until it is killed.
struct Listener {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _stderr: BufReader<ChildStderr>,
}

impl Listener {
    /// Starts it and waits for its first line on stderr.
    fn start(world: &World, arguments: &[&str], ready: &str) -> Self {
        let mut command = world.server.client(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        stderr.read_line(&mut first).unwrap();
        assert!(first.starts_with(ready), "{first}");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            lines,
            _stderr: stderr,
        }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Waits for a line that contains `text`.
    fn see(&mut self, text: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn events_are_printed_as_lines_and_json() {
    let world = World::new();
    let mut lines = Listener::start(&world, &["events"], "listening after event ");
    let mut json = Listener::start(
        &world,
        &["events", "box", "--kind", "snapshot-taken", "--json"],
        "listening",
    );
    world.sandbox("other");
    world.sandbox("box");
    world.run(["snapshot", "box", "first"]).data();
    assert!(
        lines
            .line()
            .contains("  other  session-created active  base=host")
    );
    lines.see("  box  session-created");
    lines.see("  box  snapshot-taken  snapshot=first");
    let event: Value = serde_json::from_str(&json.line()).unwrap();
    assert_eq!(
        (&event["kind"], &event["session_id"]),
        (&"snapshot-taken".into(), &"box".into())
    );
    assert_eq!(event["detail"]["snapshot"], "first");
    let since = (event["sequence"].as_u64().unwrap() - 1).to_string();
    let mut again = Listener::start(&world, &["events", "--since", &since], "listening");
    assert!(again.line().contains("snapshot-taken"));
    world
        .run(["events", "--kind", "nonsense"])
        .refused(2, &["tool-finished"]);
}

#[test]
fn changes_are_printed_until_the_sandbox_is_destroyed() {
    let world = World::new();
    world.sandbox("box");
    let mut watch = Listener::start(&world, &["watch", "box"], "watching /workspace");
    let mut flat = Listener::start(
        &world,
        &["watch", "box", "/workspace", "--flat", "--json"],
        "watching",
    );
    world.shell("box", "mkdir d");
    assert_eq!(watch.line(), "created    /workspace/d/");
    // From here on the new directory is watched.
    world.shell("box", "echo > d/f; mv d/f d/g; rm -r d");
    watch.see("/workspace/d/f -> /workspace/d/g");
    watch.see("removed    /workspace/d/");
    let first: Value = serde_json::from_str(&flat.line()).unwrap();
    assert_eq!(
        first,
        serde_json::json!({"kind": "created", "path": "/workspace/d", "is_dir": true})
    );
    world.run(["rm", "box"]).data();
    assert_eq!(watch.child.wait().unwrap().code(), Some(1));
    world.run(["watch", "box"]).refused(1, &["does not exist"]);
}
