//! The API of the E2B SDKs with a key for one sandbox.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use sandbar_testing::scaled;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    attacker::{Attacker, assert_no_fault},
    attempt::attempts,
    http,
};

attempts! {
    start_flood,
    input_flood,
    input_to_a_program_that_never_reads,
    terminal_resize_flood,
    watcher_flood,
    stream_input_never_finished,
    signed_urls_guessed,
    templates_and_uploads_without_right,
    control_calls_without_right,
    interpreter_flood,
    ranges_of_every_kind,
    metadata_of_great_length,
    connect_flood,
    start_with_extreme_values,
}

impl Attacker {
    /// Makes a call from several connections at once.
    async fn envd_many(self: &Arc<Self>, call: &'static str, messages: Vec<Value>) {
        let mut running = JoinSet::new();
        for message in messages {
            if running.len() >= 40 {
                running.join_next().await;
            }
            let attacker = Arc::clone(self);
            running.spawn(async move {
                let answer = attacker.envd(call, &message).await;
                // A process without a terminal cannot be resized: envd's own answer is 500.
                if call != "process.Process/Update" {
                    assert_no_fault(call, &answer);
                }
            });
        }
        for outcome in running.join_all_outcomes().await {
            outcome.unwrap();
        }
    }

    /// Starts a process and returns its tag; the stream of its output stays unread.
    async fn envd_process(&self, tag: &str, command: &str, more: &Value) -> tokio::net::TcpStream {
        let mut message = json!({"process": {"cmd": "/bin/sh", "args": ["-c", command]}, "tag": tag, "stdin": true});
        for (name, value) in more.as_object().into_iter().flatten() {
            message[name] = value.clone();
        }
        let request = self.envd_stream("process.Process/Start", &message);
        let stream = http::send(self.address, &request).await.unwrap();
        // The head of the answer and the event of the start.
        let mut bytes = [0; 64];
        let _ = tokio::time::timeout(http::ANSWER_TIMEOUT, stream.peek(&mut bytes)).await;
        stream
    }
}

/// Waits for all tasks, with panics as outcomes.
trait JoinAllOutcomes {
    async fn join_all_outcomes(&mut self) -> Vec<Result<(), tokio::task::JoinError>>;
}

impl JoinAllOutcomes for JoinSet<()> {
    async fn join_all_outcomes(&mut self) -> Vec<Result<(), tokio::task::JoinError>> {
        let mut outcomes = Vec::new();
        while let Some(outcome) = self.join_next().await {
            outcomes.push(outcome);
        }
        outcomes
    }
}

async fn start_flood(attacker: Arc<Attacker>) {
    let mut kept = Vec::new();
    for number in 0..250 {
        let message = json!({"process": {"cmd": "/bin/sleep", "args": ["1000"]}, "tag": format!("t{number}")});
        let request = attacker.envd_stream("process.Process/Start", &message);
        kept.extend(http::send(attacker.address, &request).await.ok());
    }
    let listed = attacker.envd("process.Process/List", &json!({})).await;
    assert_no_fault("List", &listed);
    attacker.hold(3).await;
}

async fn input_flood(attacker: Arc<Attacker>) {
    let _stream = attacker
        .envd_process("in", "cat >/dev/null", &json!({}))
        .await;
    let data = BASE64_STANDARD.encode(vec![b'x'; 100_000]);
    let message = json!({"process": {"tag": "in"}, "input": {"stdin": data}});
    attacker
        .envd_many("process.Process/SendInput", vec![message; 200])
        .await;
}

async fn input_to_a_program_that_never_reads(attacker: Arc<Attacker>) {
    let _stream = attacker
        .envd_process("deaf", "sleep 1000", &json!({}))
        .await;
    let data = BASE64_STANDARD.encode(vec![b'x'; 1_000_000]);
    let message = json!({"process": {"tag": "deaf"}, "input": {"stdin": data}});
    let key = attacker.api_key();
    let body = message.to_string();
    let length = body.len().to_string();
    let headers = [
        ("x-api-key", key.as_str()),
        ("e2b-sandbox-id", attacker.id.as_str()),
        ("e2b-sandbox-port", "49983"),
        ("content-type", "application/json"),
        ("content-length", length.as_str()),
    ];
    let request = http::head("POST", "/process.Process/SendInput", &headers) + &body;
    let mut kept = Vec::new();
    for _ in 0..60 {
        kept.extend(http::send(attacker.address, request.as_bytes()).await.ok());
    }
    attacker.hold(8).await;
}

async fn terminal_resize_flood(attacker: Arc<Attacker>) {
    let size = json!({"pty": {"size": {"cols": 80, "rows": 24}}});
    let _stream = attacker.envd_process("pty", "sleep 1000", &size).await;
    let messages = (0..300_u64)
        .map(|number| {
            let size =
                json!({"cols": number * 7919 % 5_000_000_000, "rows": 4_294_967_295_u64 - number});
            json!({"process": {"tag": "pty"}, "pty": {"size": size}})
        })
        .collect();
    attacker.envd_many("process.Process/Update", messages).await;
}

async fn watcher_flood(attacker: Arc<Attacker>) {
    attacker
        .prepare("import os\nfor k in range(100): os.makedirs('/workspace/w/d%d'%k)")
        .await;
    let message = json!({"path": "/workspace/w", "recursive": true});
    attacker
        .envd_many("filesystem.Filesystem/CreateWatcher", vec![message; 200])
        .await;
    let _ = attacker
        .python("import os\nfor k in range(3000):\n n='/workspace/w/'+'x'*200+str(k)\n open(n,'w').close(); os.unlink(n)")
        .await;
    attacker.hold(3).await;
}

async fn stream_input_never_finished(attacker: Arc<Attacker>) {
    let _stream = attacker
        .envd_process("in", "cat >/dev/null", &json!({}))
        .await;
    let key = attacker.api_key();
    let headers = [
        ("x-api-key", key.as_str()),
        ("e2b-sandbox-id", attacker.id.as_str()),
        ("e2b-sandbox-port", "49983"),
        ("content-type", "application/connect+json"),
        ("connect-protocol-version", "1"),
        ("content-length", "100000000"),
    ];
    let head = http::head("POST", "/process.Process/StreamInput", &headers);
    let start = http::frame(&json!({"start": {"process": {"tag": "in"}}}));
    let mut kept = Vec::new();
    for _ in 0..100 {
        let bytes = [head.as_bytes(), &start, &[0, 0, 1, 0, 0]].concat();
        kept.extend(http::send(attacker.address, &bytes).await.ok());
    }
    attacker.hold(5).await;
}

async fn signed_urls_guessed(attacker: Arc<Attacker>) {
    let long = "A".repeat(20_000);
    for number in 0..150 {
        let target = format!(
            "/files?path=%2Fetc%2Fpasswd&signature=v1_{number}&signature_expiration={}{number}",
            if number % 2 == 0 {
                ""
            } else {
                "99999999999999999999"
            }
        );
        let headers = [
            (
                "e2b-sandbox-id",
                if number % 3 == 0 {
                    "probe"
                } else {
                    attacker.id.as_str()
                },
            ),
            ("e2b-sandbox-port", "49983"),
        ];
        let answer = http::request(attacker.address, "GET", &target, &headers, b"").await;
        // 502: no such sandbox, for callers without a token.
        let refused = (400..500).contains(&answer.status) || answer.status == 502;
        assert!(refused, "{answer:?}");
    }
    for target in [
        format!("/files?path={long}&signature={long}"),
        format!("/files?{}", "path=a&".repeat(5000)),
        "/files?path=%00&signature=%ff".to_owned(),
    ] {
        let answer = http::request(attacker.address, "GET", &target, &[], b"").await;
        assert_no_fault("download", &answer);
    }
}

async fn templates_and_uploads_without_right(attacker: Arc<Attacker>) {
    let key = attacker.api_key();
    let headers = [
        ("x-api-key", key.as_str()),
        ("content-type", "application/json"),
    ];
    let hash = "a".repeat(64);
    let body = json!({"name": "evil", "alias": "evil", "cpuCount": 1, "memoryMB": 64}).to_string();
    let from = json!({"fromImage": "http://127.0.0.1:1/x", "steps": vec![json!({"type": "RUN", "args": ["true"]}); 2000]});
    for (method, target, body) in [
        ("POST", "/v3/templates".to_owned(), body.clone()),
        ("POST", "/v2/templates".to_owned(), body),
        (
            "POST",
            "/v2/templates/evil/builds/1".to_owned(),
            from.to_string(),
        ),
        (
            "GET",
            format!("/templates/evil/files/{hash}"),
            String::new(),
        ),
        ("DELETE", "/templates/base".to_owned(), String::new()),
        (
            "PUT",
            format!("/templates-files/{hash}?signature=x"),
            "x".repeat(5 << 20),
        ),
        (
            "PUT",
            "/templates-files/..%2f..%2fx".to_owned(),
            "x".to_owned(),
        ),
    ] {
        let answer =
            http::request(attacker.address, method, &target, &headers, body.as_bytes()).await;
        assert!(
            (400..500).contains(&answer.status),
            "{method} {target}: {answer:?}"
        );
    }
}

async fn control_calls_without_right(attacker: Arc<Attacker>) {
    let key = attacker.api_key();
    let headers = [
        ("x-api-key", key.as_str()),
        ("content-type", "application/json"),
    ];
    let own = attacker.id.as_str();
    for (method, target, body) in [
        (
            "POST",
            "/sandboxes".to_owned(),
            json!({"templateID": "base"}),
        ),
        (
            "POST",
            format!("/sandboxes/{own}/timeout"),
            json!({"timeout": 2_000_000}),
        ),
        (
            "POST",
            format!("/sandboxes/{own}/refreshes"),
            json!({"duration": 3600}),
        ),
        ("DELETE", "/sandboxes/probe".to_owned(), json!({})),
        ("GET", "/sandboxes/probe".to_owned(), json!({})),
        ("POST", "/sandboxes/probe/pause".to_owned(), json!({})),
        (
            "POST",
            "/sandboxes/probe/connect".to_owned(),
            json!({"timeout": 1}),
        ),
        (
            "POST",
            "/sandbar/sandboxes/probe/rollback".to_owned(),
            json!({"snapshot": "s"}),
        ),
    ] {
        let body = body.to_string();
        let answer =
            http::request(attacker.address, method, &target, &headers, body.as_bytes()).await;
        assert!(
            (400..500).contains(&answer.status),
            "{method} {target}: {answer:?}"
        );
    }
}

async fn interpreter_flood(attacker: Arc<Attacker>) {
    let key = attacker.api_key();
    let mut running = JoinSet::new();
    for number in 0..24 {
        let (key, id, address) = (key.clone(), attacker.id.to_string(), attacker.address);
        running.spawn(async move {
            let headers = [
                ("x-api-key", key.as_str()),
                ("e2b-sandbox-id", id.as_str()),
                ("e2b-sandbox-port", "49999"),
                ("content-type", "application/json"),
            ];
            let code = match number % 4 {
                0 => "print('x'*3000000)",
                1 => "import os; os.kill(os.getppid(), 9); os._exit(1)",
                2 => "raise RuntimeError('y'*1000000)",
                _ => "1+1",
            };
            let (target, body) = if number % 6 == 0 {
                (
                    "/contexts",
                    json!({"language": "python", "cwd": "/nowhere"}),
                )
            } else {
                ("/execute", json!({"code": code}))
            };
            let body = body.to_string();
            http::request(address, "POST", target, &headers, body.as_bytes()).await
        });
    }
    while let Some(answer) = running.join_next().await {
        let answer = answer.unwrap();
        // The interpreter was killed: 500 and 502 are its answers, by status, not the host's.
        drop(answer);
    }
}

async fn ranges_of_every_kind(attacker: Arc<Attacker>) {
    attacker
        .prepare("open('/workspace/r','wb').write(bytes(100000))")
        .await;
    let many = format!("bytes={}", "0-0,".repeat(10_000));
    for range in [
        many.as_str(),
        "bytes=99999999999999999999-",
        "bytes=-99999999999999999999",
        "bytes=5-1",
        "bytes=0-18446744073709551615",
        "bytes=-0",
        "lines=1-2",
    ] {
        let headers = [("range", range), ("accept-encoding", "gzip;q=0, *;q=9")];
        let answer = attacker
            .e2b("GET", "/files?path=%2Fworkspace%2Fr", &headers, b"")
            .await;
        assert_no_fault("download", &answer);
    }
}

async fn metadata_of_great_length(attacker: Arc<Attacker>) {
    let long = "v".repeat(60_000);
    let names: Vec<String> = (0..60)
        .map(|number| format!("x-e2b-metadata-n{number}"))
        .collect();
    let mut headers = vec![("content-type", "application/octet-stream")];
    headers.extend(names.iter().map(|name| (name.as_str(), "value")));
    let answer = attacker
        .e2b("POST", "/files?path=%2Fworkspace%2Fm", &headers, b"x")
        .await;
    assert_no_fault("upload", &answer);
    let headers = [
        ("content-type", "application/octet-stream"),
        ("x-e2b-metadata-n", long.as_str()),
    ];
    let answer = attacker
        .e2b("POST", "/files?path=%2Fworkspace%2Fm", &headers, b"x")
        .await;
    assert_no_fault("upload", &answer);
}

async fn connect_flood(attacker: Arc<Attacker>) {
    let _stream = attacker.envd_process("out", "yes", &json!({})).await;
    let request = attacker.envd_stream(
        "process.Process/Connect",
        &json!({"process": {"tag": "out"}}),
    );
    let mut kept = Vec::new();
    for _ in 0..scaled(150, 20) {
        kept.extend(http::send(attacker.address, &request).await.ok());
    }
    attacker.hold(5).await;
}

async fn start_with_extreme_values(attacker: Arc<Attacker>) {
    let long = "x".repeat(200_000);
    let many: Value = (0..5000)
        .map(|number| (format!("n{number}"), json!("v")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for message in [
        json!({"process": {"cmd": long}}),
        json!({"process": {"cmd": "/bin/true", "args": vec!["a"; 100_000]}}),
        json!({"process": {"cmd": "/bin/true", "envs": many}}),
        json!({"process": {"cmd": "/bin/true", "cwd": "/proc/1/cwd"}, "tag": long}),
        json!({"process": {"cmd": "/bin/true"}, "pty": {"size": {"cols": 0, "rows": 4_294_967_295_u32}}}),
        json!({"process": null}),
    ] {
        let request = attacker.envd_stream("process.Process/Start", &message);
        let stream = http::send(attacker.address, &request).await.unwrap();
        assert_no_fault("Start", &http::read(stream).await);
    }
}
