//! Invalid requests: client errors with a hint, never internal errors.

use connectrpc::client::{ClientConfig, HttpClient, stream_iter};
use http::StatusCode;
use sandbar_proto::v1::{self, write_file_request::Part};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{raw::send, world::World};

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_invalid_field_is_named_with_a_hint() {
    World::run(async |world| {
        world
            .call(
                "CreateSession",
                &json!({"baseSnapshot": "small", "sessionId": "box"}),
            )
            .await;
        let unary = [
            ("CreateSession", json!({}), "base_snapshot"),
            (
                "CreateSession",
                json!({"baseSnapshot": "../etc"}),
                "base_snapshot",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "sessionId": "a/b"}),
                "session_id",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "sessionId": "a..b"}),
                "session_id",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "quota": "0"}),
                "quota",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "timeout": "-1s"}),
                "timeout",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "timeout": "99999999999s"}),
                "timeout",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "env": {"A=B": "x"}}),
                "env",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "labels": {"": "x"}}),
                "labels",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "resources": {"cpus": -1}}),
                "resources.cpus",
            ),
            ("GetSession", json!({}), "session_id"),
            ("ListSessions", json!({"pageSize": 5000}), "page_size"),
            ("ListSessions", json!({"state": 77}), "state"),
            ("DestroySession", json!({"sessionId": ".."}), "session_id"),
            (
                "ForkSession",
                json!({"sessionId": "box", "count": 5000}),
                "count",
            ),
            (
                "ForkSession",
                json!({"sessionId": "box", "count": 2, "sessionIds": ["a"]}),
                "session_ids",
            ),
            (
                "ForkSession",
                json!({"sessionId": "box", "snapshot": "a/b"}),
                "snapshot",
            ),
            (
                "CreateSnapshot",
                json!({"sessionId": "box", "name": "a/b"}),
                "name",
            ),
            ("DeleteSnapshot", json!({"sessionId": "box"}), "name"),
            ("RollbackSession", json!({"sessionId": "box"}), "snapshot"),
            ("DeleteBase", json!({"name": "-rf"}), "name"),
            ("PauseSession", json!({}), "session_id"),
            ("ResumeSession", json!({"sessionId": "a/b"}), "session_id"),
            ("HibernateSession", json!({}), "session_id"),
            ("WakeSession", json!({}), "session_id"),
            ("LaunchProcess", json!({"sessionId": "box"}), "argv"),
            (
                "LaunchProcess",
                json!({"sessionId": "box", "argv": ["x"], "exposePort": 0}),
                "expose_port",
            ),
            (
                "LaunchProcess",
                json!({"sessionId": "box", "argv": ["x"], "exposePort": 70000}),
                "expose_port",
            ),
            (
                "LaunchProcess",
                json!({"sessionId": "box", "argv": ["x"], "ready": {"tcp": {}}}),
                "ready.port",
            ),
            (
                "LaunchProcess",
                json!({"sessionId": "box", "argv": ["x"], "ready": {"log": {}}}),
                "ready.text",
            ),
            (
                "LaunchProcess",
                json!({"sessionId": "box", "argv": ["x"], "readyTimeout": "0s"}),
                "ready_timeout",
            ),
            (
                "LaunchProcess",
                json!({"sessionId": "box", "argv": ["x"], "user": "a:b"}),
                "user",
            ),
            (
                "LaunchProcess",
                json!({"sessionId": "box", "argv": ["x"], "terminal": {"rows": 1}}),
                "terminal.columns",
            ),
            (
                "KillProcess",
                json!({"sessionId": "box", "processId": "p", "signal": 65}),
                "signal",
            ),
            (
                "KillProcess",
                json!({"sessionId": "box", "processId": "p", "signal": -1}),
                "signal",
            ),
            ("KillProcess", json!({"sessionId": "box"}), "process_id"),
            (
                "GetProcessStatus",
                json!({"sessionId": "box", "processId": "../p"}),
                "process_id",
            ),
            ("ListProcesses", json!({}), "session_id"),
            (
                "WaitProcess",
                json!({"sessionId": "box", "processId": "p", "waitFor": 77}),
                "wait_for",
            ),
            (
                "SendProcessInput",
                json!({"sessionId": "box", "processId": "p"}),
                "data",
            ),
            (
                "SendProcessInput",
                json!({"sessionId": "box", "close": true}),
                "process_id",
            ),
            ("Audit", json!({}), "session_id"),
            (
                "Audit",
                json!({"sessionId": "box", "pageSize": 5000}),
                "page_size",
            ),
            (
                "Audit",
                json!({"sessionId": "box", "pageToken": "x"}),
                "page_token",
            ),
            ("Audit", json!({"sessionId": "box", "order": 77}), "order"),
            ("VerifyAudit", json!({}), "session_id"),
            ("Stat", json!({"sessionId": "box"}), "path"),
            ("Stat", json!({"sessionId": "box", "path": "a\0b"}), "path"),
            (
                "Stat",
                json!({"sessionId": "box", "path": "/a", "pathBytes": "L2I="}),
                "path",
            ),
        ];
        for (method, body, field) in unary {
            let answer = world.call(method, &body).await;
            assert_eq!(
                answer.status,
                StatusCode::BAD_REQUEST,
                "{method} {body}: {:?}",
                answer.body
            );
            assert_rejected(method, &body, &answer.json(), field);
        }
        let streams = [
            ("Diff", json!({"sessionId": "box"}), "from"),
            (
                "Diff",
                json!({"sessionId": "box", "from": "a", "to": "a b"}),
                "to",
            ),
            (
                "ImportBase",
                json!({"name": "a/b", "source": "host"}),
                "name",
            ),
            (
                "ImportBase",
                json!({"name": "good", "source": "relative/path"}),
                "source",
            ),
            (
                "ImportBase",
                json!({"name": "good", "source": ""}),
                "source",
            ),
            (
                "ImportBase",
                json!({"name": "good", "image": "Not An Image"}),
                "image",
            ),
            (
                "ImportBase",
                json!({"name": "good", "source": "host", "credentials": {"username": "me"}}),
                "credentials",
            ),
            (
                "ImportBase",
                json!({"name": "good", "image": "debian", "source": "host"}),
                "image",
            ),
            ("Exec", json!({"stdin": "YQ=="}), "request"),
            ("Exec", json!({}), "request"),
            ("Exec", json!({"start": {"sessionId": "box"}}), "argv"),
            (
                "Exec",
                json!({"start": {"sessionId": "box", "argv": ["a\0"]}}),
                "argv",
            ),
            (
                "Exec",
                json!({"start": {"sessionId": "box", "argv": ["cat"], "resources": {"wallTime": "0s"}}}),
                "resources.wall_time",
            ),
            ("ReadFile", json!({"sessionId": "box"}), "path"),
            (
                "ListDir",
                json!({"sessionId": "b/x", "path": "/"}),
                "session_id",
            ),
            ("ExportTree", json!({"sessionId": "box"}), "path"),
            ("ProcessLogs", json!({"sessionId": "box"}), "process_id"),
            (
                "ProcessLogs",
                json!({"sessionId": "box", "processId": "p", "stream": 77}),
                "stream",
            ),
            ("WriteFile", json!({"data": "YQ=="}), "part"),
            (
                "WriteFile",
                json!({"start": {"sessionId": "box", "path": "f", "mode": 9999}}),
                "mode",
            ),
            ("ImportTree", json!({"finish": {}}), "part"),
        ];
        for (method, body, field) in streams {
            let answers = world.stream(method, std::slice::from_ref(&body)).await;
            assert_eq!(answers.len(), 1, "{method} {body}: {answers:?}");
            assert_rejected(method, &body, &answers[0]["error"], field);
        }
    });
}

pub(crate) fn assert_rejected(method: &str, body: &Value, error: &Value, field: &str) {
    assert_eq!(
        error["code"], "invalid_argument",
        "{method} {body}: {error}"
    );
    let detail = &error["details"][0]["debug"];
    assert_eq!(detail["field"], field, "{method} {body}: {error}");
    assert!(
        detail["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
        "{method} {body}: {error}"
    );
}

#[test]
fn request_that_cannot_be_parsed_is_a_client_error() {
    World::run(async |world| {
        for body in [
            "",
            "{",
            "[]",
            "null",
            "{\"sessionId\": 5}",
            "{\"sessionId\": \"a\"} x",
            "\u{1}",
            "{\"nonsense\": 1}",
        ] {
            let answer = send(
                world.address,
                world.request("GetSession", "application/json", body),
            )
            .await;
            assert!(
                answer.status.is_client_error(),
                "{body:?}: {} {:?}",
                answer.status,
                answer.body
            );
        }
        let answer = send(
            world.address,
            world.request("GetSession", "application/proto", &b"\xff\xff\xff"[..]),
        )
        .await;
        assert!(answer.status.is_client_error(), "{}", answer.status);
        let answer = send(
            world.address,
            world.request("GetSession", "text/plain", "{}"),
        )
        .await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        let answer = send(
            world.address,
            world.request("NoSuchCall", "application/json", "{}"),
        )
        .await;
        assert!(
            matches!(
                answer.status,
                StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED
            ),
            "{}",
            answer.status
        );
        // A truncated frame, and one that is not JSON.
        for body in [&b"\0\0\0\0\x09{}"[..], b"\0\0\0\0\x02{]"] {
            let answer = send(
                world.address,
                world.request("Exec", "application/connect+json", body),
            )
            .await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(
                text.contains("\"error\"") && !text.contains("\"internal\""),
                "{text}"
            );
        }
    });
}

#[test]
fn message_above_the_size_limit_is_rejected() {
    World::run(async |world| {
        world
            .call(
                "CreateSession",
                &json!({"baseSnapshot": "small", "sessionId": "box"}),
            )
            .await;
        let padded =
            |size: usize| json!({"sessionId": "box", "path": "x".repeat(size)}).to_string();
        let answer = send(
            world.address,
            world.request("Stat", "application/json", padded(17 << 20)),
        )
        .await;
        assert_eq!(
            answer.status,
            StatusCode::TOO_MANY_REQUESTS,
            "{:?}",
            answer.body
        );
        assert_eq!(answer.json()["code"], "resource_exhausted");
        // Longer than a path may be, but below the message limit.
        let answer = send(
            world.address,
            world.request("Stat", "application/json", padded(15 << 20)),
        )
        .await;
        assert_ne!(answer.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(answer.status.is_client_error(), "{:?}", answer.body);

        // The same for one message of a stream.
        let config = ClientConfig::new(world.url().parse().unwrap())
            .with_default_header("authorization", format!("Bearer {}", world.token));
        let rpc = v1::SandboxServiceClient::new(HttpClient::plaintext_http2_only(), config);
        let start = v1::WriteFileStart {
            session_id: "box".into(),
            path: "file".into(),
            ..Default::default()
        };
        let parts = [
            start.into(),
            Part::Data(vec![7; 17 << 20].into()),
            v1::Finish::default().into(),
        ];
        let messages = parts.map(|part| v1::WriteFileRequest {
            part: Some(part),
            ..Default::default()
        });
        let error = rpc.write_file(stream_iter(messages)).await.unwrap_err();
        assert_eq!(error.code.as_str(), "resource_exhausted", "{error:?}");
        let missing = world
            .call("Stat", &json!({"sessionId": "box", "path": "file"}))
            .await;
        assert_eq!(missing.detail()["code"], "FileNotFound");
    });
}

#[test]
fn truncated_body_is_a_client_error() {
    World::run(async |world| {
        for (content_type, body) in [
            (
                "application/json",
                "transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
            ),
            ("application/json", "content-length: 100\r\n\r\n{}"),
            (
                "application/proto",
                "transfer-encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
            ),
            (
                "application/grpc-web",
                "transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{}\r\n0\r\n\r\n",
            ),
        ] {
            let mut stream = TcpStream::connect(world.address).await.unwrap();
            let request = format!(
                "POST /sandbar.v1.SandboxService/ListBases HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n\
                 content-type: {content_type}\r\n{body}",
                world.token
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await.unwrap();
            let answer = String::from_utf8_lossy(&heard);
            let is_told =
                answer.contains("\"invalid_argument\"") || answer.contains("grpc-status: 3");
            // A client that disconnects within the body may get no response at all.
            assert!(
                is_told || answer.is_empty(),
                "{content_type} {body:?}: {answer}"
            );
            assert!(
                is_told || body.starts_with("content-length"),
                "{content_type} {body:?}: no answer"
            );
        }
    });
}
