//! `events` and `watch`: what happens, as it happens.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout, Stdio},
};

use serde_json::Value;

use crate::world::World;

/// A command that goes on until it is ended.
struct Listener {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _talk: BufReader<ChildStderr>,
}

impl Listener {
    /// Starts it, and waits until it says that it listens.
    fn start(world: &World, arguments: &[&str], ready: &str) -> Self {
        let mut command = world.server.client(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut talk = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        talk.read_line(&mut first).unwrap();
        assert!(first.starts_with(ready), "{first}");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, _talk: talk }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// The first line that has this.
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
fn what_happens_is_told_by_the_line_and_as_json() {
    let world = World::new();
    let mut people = Listener::start(&world, &["events"], "listening after event ");
    let mut programs = Listener::start(&world, &["events", "box", "--kind", "snapshot-taken", "--json"], "listening");
    world.sandbox("other");
    world.sandbox("box");
    world.run(["snapshot", "box", "first"]).data();
    assert!(people.line().contains("  other  session-created active  base=host"));
    people.see("  box  session-created");
    people.see("  box  snapshot-taken  snapshot=first");
    let event: Value = serde_json::from_str(&programs.line()).unwrap();
    assert_eq!((&event["kind"], &event["session_id"]), (&"snapshot-taken".into(), &"box".into()));
    assert_eq!(event["detail"]["snapshot"], "first");
    let since = (event["sequence"].as_u64().unwrap() - 1).to_string();
    let mut again = Listener::start(&world, &["events", "--since", &since], "listening");
    assert!(again.line().contains("snapshot-taken"));
    world.run(["events", "--kind", "nonsense"]).refused(2, &["tool-finished"]);
}

#[test]
fn changes_are_told_until_the_sandbox_is_gone() {
    let world = World::new();
    world.sandbox("box");
    let mut watch = Listener::start(&world, &["watch", "box"], "watching /workspace");
    let mut flat = Listener::start(&world, &["watch", "box", "/workspace", "--flat", "--json"], "watching");
    world.shell("box", "mkdir d; echo > d/f; mv d/f d/g; rm -r d");
    assert_eq!(watch.line(), "created    /workspace/d/");
    watch.see("/workspace/d/f -> /workspace/d/g");
    watch.see("removed    /workspace/d/");
    let first: Value = serde_json::from_str(&flat.line()).unwrap();
    assert_eq!(first, serde_json::json!({"kind": "created", "path": "/workspace/d", "is_dir": true}));
    world.run(["rm", "box"]).data();
    assert_eq!(watch.child.wait().unwrap().code(), Some(1));
    world.run(["watch", "box"]).refused(1, &["does not exist"]);
}
