//! Connections and streams that are opened and then not used as intended.

use std::{path::Path, sync::Arc};

use sandbar_testing::scaled;
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    attacker::{Attacker, answered, assert_no_fault, flood},
    attempt::attempts,
    http,
};

attempts! {
    downloads_never_read,
    exports_never_read,
    e2b_downloads_never_read,
    output_never_read,
    listings_never_read,
    logs_never_read,
    watches_without_number,
    event_streams_without_number,
    idle_connections,
    heads_never_finished,
    bodies_never_finished,
    heads_of_great_length,
    json_of_great_depth,
    messages_of_great_length,
    calls_cancelled_at_once,
    exec_streams_without_start,
    pipelined_requests,
    upgrades_without_use,
}

const BIG: &str = "f=open('/workspace/big','wb')\nfor k in range(60): f.write(bytes(1000000))";

impl Attacker {
    /// Opens streams with this message and leaves them unread, while the probe works.
    async fn leave_unread(&self, most: u64, bytes: &[u8]) {
        let mut kept = Vec::new();
        for _ in 0..scaled(most, most / 5) {
            kept.extend(http::send(self.address, bytes).await.ok());
        }
        self.hold(8).await;
    }
}

async fn downloads_never_read(attacker: Arc<Attacker>) {
    attacker.prepare(BIG).await;
    let message = json!({"sessionId": attacker.id.as_str(), "path": "/workspace/big"});
    let request = attacker.stream("ReadFile", &message);
    attacker.leave_unread(150, &request).await;
}

async fn exports_never_read(attacker: Arc<Attacker>) {
    attacker.prepare(BIG).await;
    let message = json!({"sessionId": attacker.id.as_str(), "path": "/workspace"});
    let request = attacker.stream("ExportTree", &message);
    attacker.leave_unread(100, &request).await;
}

async fn e2b_downloads_never_read(attacker: Arc<Attacker>) {
    attacker.prepare(BIG).await;
    let key = attacker.api_key();
    let headers = [
        ("x-api-key", key.as_str()),
        ("e2b-sandbox-id", attacker.id.as_str()),
        ("e2b-sandbox-port", "49983"),
        ("accept-encoding", "gzip"),
    ];
    let request = http::head("GET", "/files?path=%2Fworkspace%2Fbig", &headers);
    attacker.leave_unread(150, request.as_bytes()).await;
}

async fn output_never_read(attacker: Arc<Attacker>) {
    let start = json!({"sessionId": attacker.id.as_str(), "argv": ["yes"]});
    let request = attacker.stream("Exec", &json!({"start": start}));
    attacker.leave_unread(60, &request).await;
}

async fn listings_never_read(attacker: Arc<Attacker>) {
    attacker
        .prepare("import os\nos.makedirs('/workspace/w')\nfor k in range(8000): open('/workspace/w/'+'n'*190+str(k),'w').close()")
        .await;
    let message = json!({"sessionId": attacker.id.as_str(), "path": "/workspace/w", "depth": 3});
    let request = attacker.stream("ListDir", &message);
    attacker.leave_unread(60, &request).await;
}

async fn logs_never_read(attacker: Arc<Attacker>) {
    let spec = sandbar_core::ProcessSpec::new(["yes"]);
    let process = attacker.client.launch_process(&attacker.id, spec);
    let process = answered("launch", process).await.unwrap();
    let message = json!({"sessionId": attacker.id.as_str(), "processId": process.id.as_str(), "follow": true});
    let request = attacker.stream("ProcessLogs", &message);
    attacker.leave_unread(100, &request).await;
}

async fn watches_without_number(attacker: Arc<Attacker>) {
    attacker
        .prepare("import os\nfor k in range(50): os.makedirs('/workspace/w/d%d'%k)")
        .await;
    let message =
        json!({"sessionId": attacker.id.as_str(), "path": "/workspace/w", "recursive": true});
    let request = attacker.stream("WatchDir", &message);
    attacker.leave_unread(400, &request).await;
}

async fn event_streams_without_number(attacker: Arc<Attacker>) {
    let message = json!({"sessionId": attacker.id.as_str()});
    let request = attacker.stream("WatchEvents", &message);
    let mut kept = Vec::new();
    for _ in 0..700 {
        kept.extend(http::send(attacker.address, &request).await.ok());
    }
    // Every one of these is an event on every stream.
    let (client, id) = (attacker.client.clone(), attacker.id.clone());
    flood("turn_complete", 30, 4, |_| {
        let (client, id) = (client.clone(), id.clone());
        async move { client.turn_complete(&id).await }
    })
    .await;
    attacker.hold(3).await;
}

async fn idle_connections(attacker: Arc<Attacker>) {
    let mut kept = Vec::new();
    for _ in 0..600 {
        kept.extend(TcpStream::connect(attacker.address).await.ok());
    }
    attacker.hold(5).await;
}

async fn heads_never_finished(attacker: Arc<Attacker>) {
    let mut kept = Vec::new();
    for number in 0..500 {
        let part = match number % 4 {
            0 => "POST /sandbar.v1.SandboxService/Exec HT",
            1 => "GET / HTTP/1.1\r\nhost: a\r\nx-a: b",
            2 => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            _ => "\x16\x03\x01",
        };
        kept.extend(http::send(attacker.address, part.as_bytes()).await.ok());
    }
    attacker.hold(5).await;
}

async fn bodies_never_finished(attacker: Arc<Attacker>) {
    let bearer = format!("Bearer {}", attacker.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("content-length", "16000000"),
    ];
    let mut kept = Vec::new();
    for call in ["GetSession", "ExecuteTool", "Stat", "CreateSession"] {
        for _ in 0..60 {
            let target = format!("/sandbar.v1.SandboxService/{call}");
            let head = http::head("POST", &target, &headers);
            let mut stream = http::send(attacker.address, head.as_bytes()).await.unwrap();
            let _ = stream.write_all(&vec![b' '; 100_000]).await;
            kept.push(stream);
        }
    }
    attacker.hold(5).await;
}

async fn heads_of_great_length(attacker: Arc<Attacker>) {
    let long = "x".repeat(4 << 20);
    let bearer = format!("Bearer {long}");
    let headers = [("authorization", bearer.as_str()), ("connection", "close")];
    let many: String = (0..5000).fold(String::new(), |text, number| {
        text + &format!("x-{number}: {number}\r\n")
    });
    for request in [
        http::head("GET", "/readyz", &headers),
        http::head("GET", &format!("/{long}"), &[]),
        format!("GET /readyz HTTP/1.1\r\nhost: a\r\n{many}\r\n"),
        format!("{long} / HTTP/1.1\r\n\r\n"),
    ] {
        let stream = http::send(attacker.address, request.as_bytes())
            .await
            .unwrap();
        let answer = http::read(stream).await;
        assert_no_fault("request", &answer);
    }
}

async fn json_of_great_depth(attacker: Arc<Attacker>) {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = format!("{}1{}", open.repeat(500_000), close.repeat(500_000));
        let call = format!(
            "{{\"sessionId\":\"{}\",\"toolName\":\"glob\",\"toolCallId\":\"x\",\"params\":{{\"pattern\":{nested}}}}}",
            attacker.id
        );
        for (target, body) in [
            ("/sandbar.v1.SandboxService/ExecuteTool", &call),
            ("/sandbar.v1.SandboxService/GetSession", &nested),
            ("/mcp", &nested),
            ("/v2/sandboxes", &nested),
        ] {
            let answer = attacker.http("POST", target, body.as_bytes()).await;
            assert_no_fault(target, &answer);
        }
    }
}

async fn messages_of_great_length(attacker: Arc<Attacker>) {
    let long = "a".repeat(15 << 20);
    for _ in 0..4 {
        let request = attacker.request("grep", &json!({"pattern": long, "path": long}));
        let call = attacker.client.execute_tool(&attacker.id, &request);
        let _ = answered("grep", call).await;
    }
    let text = json!({"path": "/workspace/a", "content": long});
    let _ = attacker.tool("write_file", text).await;
    let stat = attacker.client.stat(&attacker.id, Path::new(&long));
    let _ = answered("stat", stat).await;
    // A message that claims more than it has.
    let mut frame = attacker.stream("Exec", &json!({}));
    let at = frame.len() - 7;
    frame[at..at + 5].copy_from_slice(&[0, 0xff, 0xff, 0xff, 0xff]);
    let stream = http::send(attacker.address, &frame).await.unwrap();
    assert_no_fault("Exec", &http::read(stream).await);
}

async fn calls_cancelled_at_once(attacker: Arc<Attacker>) {
    let start = json!({"sessionId": attacker.id.as_str(), "argv": ["sleep", "1000"]});
    let exec = attacker.stream("Exec", &json!({"start": start}));
    let read = attacker.stream(
        "ReadFile",
        &json!({"sessionId": attacker.id.as_str(), "path": "/bin/sh"}),
    );
    for _ in 0..300 {
        for request in [&exec, &read] {
            drop(http::send(attacker.address, request).await);
        }
    }
    attacker.hold(5).await;
}

async fn exec_streams_without_start(attacker: Arc<Attacker>) {
    let bearer = format!("Bearer {}", attacker.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/connect+json"),
        ("transfer-encoding", "chunked"),
    ];
    let mut kept = Vec::new();
    for call in ["Exec", "AttachProcess", "WriteFile", "ImportTree"] {
        for _ in 0..150 {
            let target = format!("/sandbar.v1.SandboxService/{call}");
            let head = http::head("POST", &target, &headers);
            kept.extend(http::send(attacker.address, head.as_bytes()).await.ok());
        }
    }
    attacker.hold(5).await;
}

async fn pipelined_requests(attacker: Arc<Attacker>) {
    let bearer = format!("Bearer {}", attacker.token);
    let body = json!({"sessionId": attacker.id.as_str()}).to_string();
    let length = body.len().to_string();
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("content-length", length.as_str()),
    ];
    let one = http::head("POST", "/sandbar.v1.SandboxService/GetSession", &headers) + &body;
    let many = one.repeat(2000);
    let mut kept = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(attacker.address).await.unwrap();
        let many = many.clone();
        // Blocks when the host reads no further, because nothing reads its answers.
        kept.push(tokio::spawn(async move {
            let _ = stream.write_all(many.as_bytes()).await;
            stream
        }));
    }
    attacker.hold(5).await;
    kept.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn upgrades_without_use(attacker: Arc<Attacker>) {
    let _server = attacker
        .started("import socket,time\ns=socket.socket()\ns.bind(('0.0.0.0',8080))\ns.listen(64)\nprint('ready',flush=True)\nheld=[]\nwhile 1: held.append(s.accept())")
        .await;
    let bearer = format!("Bearer {}", attacker.token);
    let host = format!("8080-{}.localhost", attacker.id);
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {host}\r\nauthorization: {bearer}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    attacker.leave_unread(200, request.as_bytes()).await;
}
