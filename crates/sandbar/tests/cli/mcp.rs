//! `mcp`: the real program on its stdin and stdout, as a client starts it.

#![expect(
    clippy::needless_pass_by_value,
    reason = "called with what `json!` just made"
)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use sandbar_testing::eventually;
use serde_json::{Value, json};

use crate::world::{Said, World};

/// A running `sandbar mcp` and what it says. Killed with the test.
struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Session {
    /// Starts it and shakes hands.
    fn start(world: &World, arguments: &[&str]) -> Self {
        Self::spawn(world, arguments).greet()
    }

    fn greet(mut self) -> Self {
        let session = &mut self;
        let greeting = session.ask(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        assert_eq!(greeting["protocolVersion"], "2025-06-18");
        assert_eq!(greeting["serverInfo"]["name"], "sandbar");
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self
    }

    /// The names of the tools that are offered.
    fn offered(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({}));
        listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Calls a tool that has to be refused to this caller.
    #[track_caller]
    fn denied(&mut self, name: &str, arguments: Value) {
        let result = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(
            result["_meta"]["sandbar/errorCode"], "PermissionDenied",
            "{result}"
        );
    }

    fn spawn(world: &World, arguments: &[&str]) -> Self {
        Self::run(world.server.client(["mcp"]).args(arguments))
    }

    fn run(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (
            child.stdin.take(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        Self {
            child,
            stdin,
            stdout,
            next_id: 0,
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request without waiting for its answer.
    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        self.send(
            &json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}),
        );
        self.next_id
    }

    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool that has to succeed; what it answers for programs.
    #[track_caller]
    fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let result = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that has to succeed; what it answers for models.
    #[track_caller]
    fn text(&mut self, name: &str, arguments: Value) -> String {
        let result = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Closes the input and waits for the end; what was said on stderr.
    fn close(mut self) -> (ExitStatus, String) {
        self.stdin = None;
        let status = self.child.wait().unwrap();
        let stderr = std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap();
        (status, stderr)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn client_creates_rolls_back_forks_and_destroys_a_sandbox() {
    let world = World::new();
    let mut mcp = Session::start(&world, &[]);
    let made = mcp.tool(
        "sandbox_create",
        json!({"id": "box", "labels": {"team": "red"}}),
    );
    assert_eq!(
        (&made["sandbox"], &made["labels"]["team"]),
        (&json!("box"), &json!("red"))
    );
    mcp.text(
        "write_file",
        json!({"sandbox": "box", "path": "a.txt", "content": "one\n"}),
    );
    let snapshot = mcp.tool("snapshot", json!({"sandbox": "box", "name": "before"}));
    assert_eq!(snapshot["snapshot"], "before");
    mcp.text(
        "bash",
        json!({"sandbox": "box", "cmd": "echo two >> a.txt; touch b.txt"}),
    );
    let diff = mcp.tool("diff", json!({"sandbox": "box", "from": "before"}));
    let changed: Vec<(&str, &str)> = (diff["changes"].as_array().unwrap().iter())
        .filter(|change| change["entry"] == "file")
        .map(|change| {
            (
                change["kind"].as_str().unwrap(),
                change["path"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        changed,
        [
            ("modified", "/workspace/a.txt"),
            ("added", "/workspace/b.txt")
        ]
    );
    let forked = mcp.tool("fork", json!({"sandbox": "box", "ids": ["copy"]}));
    assert_eq!(
        (
            &forked["sandboxes"][0]["sandbox"],
            &forked["sandboxes"][0]["forked_from"]
        ),
        (&json!("copy"), &json!("box"))
    );
    mcp.tool("rollback", json!({"sandbox": "box", "snapshot": "before"}));
    assert_eq!(
        mcp.text("bash", json!({"sandbox": "box", "cmd": "cat a.txt; ls"})),
        "one\na.txt\n"
    );
    assert_eq!(
        mcp.text("bash", json!({"sandbox": "copy", "cmd": "cat a.txt"})),
        "one\ntwo\n"
    );
    let listed = mcp.tool("sandbox_list", json!({"labels": {"team": "red"}}));
    assert_eq!(listed["sandboxes"].as_array().unwrap().len(), 2);
    for id in ["box", "copy"] {
        assert_eq!(
            mcp.tool("sandbox_destroy", json!({"sandbox": id}))["destroyed"],
            id
        );
    }
    let gone = mcp.ask(
        "tools/call",
        json!({"name": "list_dir", "arguments": {"sandbox": "box"}}),
    );
    assert_eq!(
        (&gone["isError"], &gone["_meta"]["sandbar/errorCode"]),
        (&json!(true), &json!("SessionNotFound"))
    );
    let (status, stderr) = mcp.close();
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
    assert!(world.ids().is_empty());
}

#[test]
fn calls_without_sandbox_share_one_of_the_connection() {
    let world = World::new();
    let mut mcp = Session::start(&world, &[]);
    mcp.ask("tools/list", json!({}));
    assert!(
        world.ids().is_empty(),
        "nothing is made before it is needed"
    );
    mcp.text("write_file", json!({"path": "a", "content": "here"}));
    assert_eq!(mcp.text("bash", json!({"cmd": "cat a"})), "here");
    let made = world.ids();
    assert_eq!(made.len(), 1);
    // One that was destroyed is replaced.
    mcp.tool("sandbox_destroy", json!({"sandbox": made[0]}));
    assert_eq!(mcp.text("bash", json!({"cmd": "ls"})), "[no output]");
    assert_eq!(mcp.close().0.code(), Some(0));
    assert!(world.ids().is_empty());

    let mut kept = Session::start(&world, &["--keep"]);
    kept.text("write_file", json!({"path": "a", "content": "kept"}));
    let (status, stderr) = kept.close();
    let ids = world.ids();
    assert_eq!(
        (status.code(), stderr),
        (Some(0), format!("kept sandbox {}\n", ids[0]))
    );
    assert_eq!(world.shell(&ids[0], "cat a"), "kept");

    let mut given = Session::start(&world, &["--sandbox", &ids[0]]);
    assert_eq!(given.text("bash", json!({"cmd": "cat a"})), "kept");
    given.close();
    assert_eq!(world.ids(), ids);
    world
        .run(["mcp", "--sandbox", "gone"])
        .refused(1, &["gone"]);
}

/// Checks what a client that is confined to `a` may do and what not.
#[track_caller]
fn assert_confined(world: &World, mcp: &mut Session) {
    assert_eq!(
        mcp.text("bash", json!({"cmd": "echo here > note; cat note"})),
        "here\n"
    );
    assert_eq!(
        mcp.text("bash", json!({"sandbox": "a", "cmd": "cat note"})),
        "here\n"
    );
    mcp.denied("sandbox_destroy", json!({"sandbox": "b"}));
    mcp.denied("bash", json!({"sandbox": "b", "cmd": "true"}));
    mcp.denied("snapshot", json!({"sandbox": "b"}));
    mcp.denied("sandbox_create", json!({"network": "full"}));
    mcp.denied("fork", json!({}));
    let listed = mcp.tool("sandbox_list", json!({}));
    let ids: Vec<&Value> = listed["sandboxes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|shown| &shown["sandbox"])
        .collect();
    assert_eq!(ids, ["a"]);
    let offered = mcp.offered();
    assert!(
        offered.iter().any(|tool| tool == "sandbox_destroy"),
        "{offered:?}"
    );
    assert!(
        !offered
            .iter()
            .any(|tool| tool == "sandbox_create" || tool == "fork"),
        "{offered:?}"
    );
    assert_eq!(world.ids(), ["a", "b"]);
}

#[test]
fn mcp_with_a_sandbox_given_reaches_no_other_sandbox() {
    let world = World::new();
    world.sandbox("a");
    world.sandbox("b");
    let mut mcp = Session::start(&world, &["--sandbox", "a"]);
    assert_confined(&world, &mut mcp);
    // It has a token of its own, which is not the host's.
    let tokens: Value = serde_json::from_str(&world.run(["token", "ls", "--json"]).data()).unwrap();
    assert_eq!(tokens[0]["scopes"], json!(["session:a"]));
    assert!(tokens[0]["expires"].is_string(), "{tokens}");
    let name = tokens[0]["name"].as_str().unwrap();
    assert!(
        world
            .run(["audit", "a"])
            .data()
            .contains(&format!("token:{name}@"))
    );
    let (status, stderr) = mcp.close();
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
    assert_eq!(world.run(["token", "ls", "-q"]).data(), "");

    // A client may end its own sandbox, and its token goes with it.
    let mut mcp = Session::start(&world, &["--sandbox", "a"]);
    assert_eq!(
        mcp.tool("sandbox_destroy", json!({"sandbox": "a"}))["destroyed"],
        "a"
    );
    let (status, stderr) = mcp.close();
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
    assert_eq!(world.ids(), ["b"]);
}

#[test]
fn mcp_with_a_token_of_its_sandbox_needs_no_other_token() {
    let world = World::new();
    world.sandbox("a");
    world.sandbox("b");
    let token = |name: &str, scopes: &[&str]| {
        let scopes = scopes.iter().flat_map(|scope| ["--scope", scope]);
        world
            .run(["token", "new", name].into_iter().chain(scopes))
            .word()
    };
    // The second opens both sandboxes; the flag confines it all the same.
    for token in [
        token("one", &["session:a"]),
        token("both", &["session:a", "session:b"]),
    ] {
        let mut command = world.server.client(["mcp", "--sandbox", "a"]);
        let mut mcp = Session::run(command.env("SANDBAR_TOKEN", token)).greet();
        assert_confined(&world, &mut mcp);
        assert_eq!(mcp.close().0.code(), Some(0));
    }
    assert_eq!(world.run(["token", "ls", "-q"]).data(), "both\none\n");
    let token = token("other", &["session:b"]);
    let refused = world
        .server
        .client(["mcp", "--sandbox", "a"])
        .env("SANDBAR_TOKEN", token)
        .output()
        .unwrap();
    Said::from_output(refused).refused(1, &["session:a"]);
}

#[test]
fn a_cancelled_call_ends_its_command_and_is_not_answered() {
    let world = World::new();
    let mut mcp = Session::start(&world, &[]);
    let directory = mcp.text("bash", json!({"cmd": "pwd"}));
    assert!(!directory.is_empty());
    let sleeping = mcp.begin(
        "tools/call",
        json!({"name": "bash", "arguments": {"cmd": "echo $$ > pid; exec sleep 1000"}}),
    );
    let wait = "until test -s pid; do sleep 0.02; done; cat pid";
    mcp.text("bash", json!({"cmd": wait}));
    mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": sleeping, "reason": "enough"}}));
    // The next answer is to the next call: the cancelled one has none.
    mcp.text(
        "bash",
        json!({"cmd": "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.02; done"}),
    );
    mcp.close();
}

#[test]
fn closed_stdin_ends_calls_and_destroys_the_sandbox() {
    let world = World::new();
    let mut mcp = Session::start(&world, &[]);
    mcp.text("bash", json!({"cmd": "true"}));
    mcp.begin(
        "tools/call",
        json!({"name": "bash", "arguments": {"cmd": "echo $$ > pid; exec sleep 1000"}}),
    );
    mcp.text(
        "bash",
        json!({"cmd": "until test -s pid; do sleep 0.02; done"}),
    );
    assert_eq!(mcp.close().0.code(), Some(0));
    assert!(world.ids().is_empty());
    // A signal does the same, and so does a client that dies with both ends.
    let mut mcp = Session::start(&world, &[]);
    mcp.text("bash", json!({"cmd": "true"}));
    let pid = i32::try_from(mcp.child.id()).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(mcp.child.wait().unwrap().code(), Some(143));
    eventually("the sandbox is gone", || world.ids().is_empty());
}

#[test]
fn progress_arrives_while_a_command_runs() {
    let world = World::new();
    let mut mcp = Session::start(&world, &[]);
    mcp.text("bash", json!({"cmd": "mkfifo gate"}));
    let id = mcp.begin(
        "tools/call",
        json!({
            "name": "bash",
            "arguments": {"cmd": "echo begun; cat gate; echo done"},
            "_meta": {"progressToken": "p"},
        }),
    );
    let first = mcp.receive();
    assert_eq!(
        (&first["method"], &first["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("p"))
    );
    assert_eq!(first["params"]["message"], "begun\n");
    // It is still running: only this lets it go on.
    mcp.begin(
        "tools/call",
        json!({"name": "bash", "arguments": {"cmd": "echo go > gate"}}),
    );
    let mut last = first["params"]["progress"].as_f64().unwrap();
    let mut said = String::new();
    loop {
        let message = mcp.receive();
        if message["id"] == id {
            assert_eq!(message["result"]["content"][0]["text"], "begun\ngo\ndone\n");
            break;
        }
        if message["method"] == "notifications/progress" {
            let progress = message["params"]["progress"].as_f64().unwrap();
            assert!(progress > last);
            last = progress;
            said.push_str(message["params"]["message"].as_str().unwrap());
        }
    }
    assert_eq!(said, "go\ndone\n");
    mcp.close();
}

#[test]
fn launched_server_has_an_address_and_logs() {
    let world = World::new();
    let mut mcp = Session::start(&world, &[]);
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let argv = [
        "python3",
        "-u",
        "-m",
        "http.server",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
    ];
    let launched = mcp.tool(
        "launch",
        json!({"argv": argv, "port": port, "ready": "tcp"}),
    );
    assert_eq!(
        (&launched["status"], &launched["port"]),
        (&json!("running"), &json!(port))
    );
    let sandbox = launched["sandbox"].as_str().unwrap();
    let reached = mcp.tool("expose_port", json!({"port": port}))["reached_at"].clone();
    assert_eq!(launched["reached_at"], reached);
    let url = reached["url"].as_str().unwrap();
    assert!(
        url.starts_with(&format!("http://{port}-{sandbox}.localhost:")),
        "{url}"
    );
    let token = reached["headers"]["x-sandbar-traffic-token"]
        .as_str()
        .unwrap();
    // Browsers resolve `.localhost` to this machine; curl needs an option for it.
    let api = world.server.url().trim_start_matches("http://").to_owned();
    let (host, api_port) = api.rsplit_once(':').unwrap();
    let name = url.trim_start_matches("http://").trim_end_matches('/');
    let fetched = Command::new("curl")
        .args([
            "-sS",
            "--fail",
            "--resolve",
            &format!("{}:{api_port}:{host}", name.rsplit_once(':').unwrap().0),
        ])
        .args(["-H", &format!("x-sandbar-traffic-token: {token}"), url])
        .output()
        .unwrap();
    assert!(fetched.status.success(), "{fetched:?}");
    let process = launched["process"].as_str().unwrap();
    let logs = mcp.text("logs", json!({"process": process}));
    assert!(logs.contains("GET / HTTP/1.1"), "{logs}");
    assert!(mcp.text("logs", json!({})).contains(process));
    mcp.close();
}
