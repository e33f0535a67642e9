//! `/openapi.json`, validated by the Python package `openapi-spec-validator`, and responses of a
//! real host, validated against it.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::{
    raw::{get, send},
    world::World,
};

/// Python interpreter with the packages from `scripts/setup.sh`, or the system's.
fn python() -> PathBuf {
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let installed = home.join(".cache/sandbar/python/bin/python3");
    let knows = |python: &Path| {
        let mut command = Command::new(python);
        command
            .args(["-c", "import openapi_spec_validator, jsonschema"])
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if knows(&installed) {
        installed
    } else {
        PathBuf::from("python3")
    }
}

/// Recorded requests and responses.
struct Heard<'a> {
    world: &'a World,
    seen: Vec<Value>,
}

impl Heard<'_> {
    fn note(&mut self, call: &str, kind: &str, value: &Value) {
        self.seen
            .push(json!({"call": call, "kind": kind, "value": value, "fits": true}));
    }

    /// Makes and records a call that succeeds.
    async fn call(&mut self, call: &str, request: Value) -> Value {
        let answer = self.world.call(call, &request).await;
        assert_eq!(answer.status, StatusCode::OK, "{call}: {:?}", answer.body);
        self.note(call, "request", &request);
        self.note(call, "response", &answer.json());
        answer.json()
    }

    async fn failure(&mut self, call: &str, request: Value) {
        let answer = self.world.call(call, &request).await;
        assert!(!answer.status.is_success(), "{call}");
        self.note(call, "error", &answer.json());
    }

    async fn stream(&mut self, call: &str, requests: &[Value]) {
        let mut answers = self.world.stream(call, requests).await;
        assert_eq!(answers.pop(), Some(json!({})), "{call}");
        for request in requests {
            self.note(call, "request", request);
        }
        for answer in &answers {
            self.note(call, "response", answer);
        }
    }
}

#[test]
fn openapi_is_valid_and_real_responses_match_it() {
    World::run(async |world| {
        let document = get(world.address, "/openapi.json").await.json();
        let mut heard = Heard {
            world,
            seen: Vec::new(),
        };
        live(&mut heard).await;
        // The validator must also reject an invalid document.
        for value in [
            json!({"session": {"spaceUsed": 5}}),
            json!({"session": {"state": "ACTIVE"}}),
            json!({"session": {"created": 7}}),
            json!({"sesion": {}}),
        ] {
            heard.seen.push(
                json!({"call": "GetSession", "kind": "response", "value": value, "fits": false}),
            );
        }
        let two =
            json!({"sessionId": "s", "argv": ["x"], "ready": {"tcp": {}, "log": {"text": "x"}}});
        heard
            .seen
            .push(json!({"call": "LaunchProcess", "kind": "request", "value": two, "fits": false}));
        let count = heard.seen.len();
        let mut judge = Command::new(python());
        judge.arg("-c").arg(include_str!("openapi_check.py"));
        let mut judge = judge
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let given = json!({"document": document, "seen": heard.seen}).to_string();
        judge
            .stdin
            .take()
            .unwrap()
            .write_all(given.as_bytes())
            .unwrap();
        let judged = judge.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&judged.stderr);
        assert!(
            judged.status.success(),
            "{said}; `make setup-tests` installs what is missing"
        );
        assert_eq!(
            String::from_utf8_lossy(&judged.stdout).trim(),
            count.to_string()
        );
    });
}

/// Makes calls of every kind.
async fn live(heard: &mut Heard<'_>) {
    heard
        .call(
            "CreateSession",
            json!({
                "baseSnapshot": "small",
                "sessionId": "box",
                "labels": {"team": "a"},
                "env": {"A": "b"},
                "timeout": "3600s",
                "resources": {"pids": "64", "wallTime": "30.5s"},
            }),
        )
        .await;
    let of = |more: Value| {
        let mut request = json!({"sessionId": "box"});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        request
    };
    for call in ["GetSession", "GetNetwork", "TurnComplete"] {
        heard.call(call, of(json!({}))).await;
    }
    heard
        .call(
            "ListSessions",
            json!({"state": "SESSION_STATE_ACTIVE", "pageSize": 10}),
        )
        .await;
    for call in [
        "Capabilities",
        "HealthCheck",
        "ListBases",
        "ListTools",
        "ListSecrets",
    ] {
        heard.call(call, json!({})).await;
    }
    heard
        .call(
            "CreateToken",
            json!({"name": "reader", "scopes": ["read"], "expiresIn": "60s"}),
        )
        .await;
    heard.call("ListTokens", json!({})).await;
    heard
        .call("CreateSnapshot", of(json!({"name": "one"})))
        .await;
    let exec = json!({"start": {"sessionId": "box", "argv": ["/bin/sh", "-c", "echo hello > file; echo said"]}});
    heard.stream("Exec", &[exec]).await;
    heard.stream("Diff", &[of(json!({"from": "one"}))]).await;
    heard
        .stream("ReadFile", &[of(json!({"path": "/workspace/file"}))])
        .await;
    heard
        .call("Stat", of(json!({"path": "/workspace/file"})))
        .await;
    heard
        .stream("ListDir", &[of(json!({"path": "/workspace"}))])
        .await;
    heard
        .call(
            "MakeDir",
            of(json!({"path": "new/dir", "createDirs": true, "owner": {"uid": 5, "gid": 6}})),
        )
        .await;
    heard
        .call("MovePath", of(json!({"path": "new", "newPath": "old"})))
        .await;
    heard.call("RemovePath", of(json!({"path": "old"}))).await;
    heard.call("ListSnapshots", of(json!({}))).await;
    let launched = heard
        .call(
            "LaunchProcess",
            of(json!({"argv": ["/bin/sh", "-c", "echo up; exit 3"]})),
        )
        .await;
    let process = launched["process"]["processId"].clone();
    heard
        .call(
            "WaitProcess",
            of(json!({"processId": process, "waitFor": "WAIT_FOR_EXITED"})),
        )
        .await;
    heard.call("ListProcesses", of(json!({}))).await;
    heard
        .stream("ProcessLogs", &[of(json!({"processId": process}))])
        .await;
    let tool =
        json!({"toolName": "read_file", "toolCallId": "1", "params": {"path": "/workspace/file"}});
    heard.call("ExecuteTool", of(tool)).await;
    heard
        .call(
            "ForkSession",
            of(json!({"count": 1, "sessionIds": ["copy"]})),
        )
        .await;
    heard
        .call("RollbackSession", of(json!({"snapshot": "one"})))
        .await;
    heard.call("Audit", of(json!({}))).await;
    heard.call("VerifyAudit", of(json!({}))).await;
    heard
        .call("DestroySession", json!({"sessionId": "copy"}))
        .await;
    heard
        .failure("GetSession", json!({"sessionId": "missing"}))
        .await;
    heard
        .failure("CreateSession", json!({"baseSnapshot": "../x"}))
        .await;
    heard
        .failure("CreateSession", json!({"baseSnapshot": 5}))
        .await;
}

#[test]
fn openapi_is_public_and_revalidated_by_etag() {
    World::run(async |world| {
        let first = get(world.address, "/openapi.json").await;
        assert_eq!(first.status, StatusCode::OK, "without a token");
        assert_eq!(first.headers["content-type"], "application/json");
        let ask = |tag: &str| {
            let request = Request::get("/openapi.json")
                .header("host", "localhost")
                .header("if-none-match", tag);
            send(world.address, request.body(Full::default()).unwrap())
        };
        let tag = first.headers["etag"].to_str().unwrap();
        for known in [
            tag.to_owned(),
            format!("W/{tag}"),
            format!("\"other\", {tag}"),
            "*".to_owned(),
        ] {
            let again = ask(&known).await;
            assert_eq!(
                (again.status, again.body),
                (StatusCode::NOT_MODIFIED, Bytes::new()),
                "{known}"
            );
        }
        assert_eq!(ask("\"other\"").await.body, first.body);
    });
}

#[test]
fn read_only_calls_answer_get_as_described() {
    World::run(async |world| {
        let ask = |call: &str, message: &str| {
            let path = format!(
                "/sandbar.v1.SandboxService/{call}?connect=v1&encoding=json&message={message}"
            );
            let bearer = format!("Bearer {}", world.token);
            let request = Request::get(path)
                .header("host", "localhost")
                .header("authorization", bearer);
            send(world.address, request.body(Full::default()).unwrap())
        };
        let document = get(world.address, "/openapi.json").await.json();
        let described = |call: &str| {
            document["paths"][format!("/sandbar.v1.SandboxService/{call}")]["get"].is_object()
        };
        assert!(described("ListSessions") && !described("DestroySession"));
        assert_eq!(ask("ListSessions", "%7B%7D").await.status, StatusCode::OK);
        let refused = ask("DestroySession", "%7B%22sessionId%22%3A%22x%22%7D").await;
        assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    });
}
