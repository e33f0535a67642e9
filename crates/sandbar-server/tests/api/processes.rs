//! Long-running processes over the wire.

use http::StatusCode;
use sandbar_client::RemoteLogs;
use sandbar_core::{
    ErrorCode, LogQuery, LogStream, ProcessId, ProcessSpec, ProcessStatus, Readiness, SessionId,
    StdinMode, TerminalSize, WaitFor,
};
use serde_json::json;

use crate::world::{PROTOCOLS, World};

/// Returns a process that runs a shell script.
fn script(script: &str) -> ProcessSpec {
    ProcessSpec::new(["/bin/sh", "-c", script])
}

/// Reads all output, stdout and stderr separately.
async fn read_to_end(mut logs: RemoteLogs) -> (String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(chunk) = logs.next().await.unwrap() {
        assert_eq!(chunk.missed, 0);
        let text = match chunk.stream {
            LogStream::Stdout => &mut stdout,
            LogStream::Stderr => &mut stderr,
        };
        assert_eq!(chunk.offset, text.len() as u64);
        text.extend_from_slice(&chunk.bytes);
    }
    (
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

#[test]
fn process_lifecycle_works_over_every_protocol() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let id = &world.session(&client).await.id;
            let spec = ProcessSpec {
                ready: Readiness::Log {
                    text: "listening".into(),
                },
                env: [("WORD".to_owned(), "listening".to_owned())].into(),
                ..script("echo oops >&2; echo out; echo $WORD; exec sleep 600")
            };
            let launched = client.launch_process(id, spec.clone()).await.unwrap();
            assert_eq!((&launched.session, &launched.argv), (id, &spec.argv));
            let process = &launched.id;
            let ready = client
                .wait_process(id, process, WaitFor::Ready)
                .await
                .unwrap();
            assert_eq!(
                (ready.status, ready.exit.clone()),
                (ProcessStatus::Running, None)
            );
            assert!(ready.pid.is_some() && ready.ready_at.is_some());
            assert_eq!(client.get_process_status(id, process).await.unwrap(), ready);
            assert_eq!(client.list_processes(id).await.unwrap(), [ready]);

            let all = LogQuery {
                follow: true,
                ..LogQuery::default()
            };
            let follower = client.process_logs(id, process, all).await.unwrap();
            client.kill_process(id, process, 15).await.unwrap();
            let ended = client
                .wait_process(id, process, WaitFor::Exited)
                .await
                .unwrap();
            assert_eq!(ended.status, ProcessStatus::Exited);
            assert_eq!(ended.exit.unwrap().signal, Some(15));
            assert_eq!(
                read_to_end(follower).await,
                ("out\nlistening\n".to_owned(), "oops\n".to_owned())
            );
            let tail = LogQuery {
                stream: Some(LogStream::Stdout),
                tail: Some(1),
                follow: false,
            };
            let logs = client.process_logs(id, process, tail).await.unwrap();
            assert_eq!(logs_text(logs).await, "listening\n");
        }
    });
}

/// Returns the output of one stream.
async fn logs_text(mut logs: RemoteLogs) -> String {
    let mut text = Vec::new();
    while let Some(chunk) = logs.next().await.unwrap() {
        text.extend_from_slice(&chunk.bytes);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn process_lifecycle_works_over_plain_json() {
    World::run(async |world| {
        world
            .call(
                "CreateSession",
                &json!({"baseSnapshot": "small", "sessionId": "box"}),
            )
            .await;
        let launched = world
            .call(
                "LaunchProcess",
                &json!({
                    "sessionId": "box", "argv": ["/bin/sh", "-c", "echo up; exit 3"],
                    "ready": {"log": {"text": "never"}}, "readyTimeout": "60s", "restart": {"onFailure": {"atMost": 1}},
                }),
            )
            .await;
        assert_eq!(launched.status, StatusCode::OK, "{:?}", launched.body);
        assert_eq!(
            launched.json()["process"]["status"],
            "PROCESS_STATUS_STARTING"
        );
        let process = launched.json()["process"]["processId"].clone();
        let named = json!({"sessionId": "box", "processId": process});

        let wait = json!({"sessionId": "box", "processId": process, "waitFor": "WAIT_FOR_EXITED"});
        let ended = world.call("WaitProcess", &wait).await.json();
        assert_eq!(ended["process"]["status"], "PROCESS_STATUS_EXITED");
        assert_eq!(
            (
                &ended["process"]["exit"]["code"],
                &ended["process"]["restarts"]
            ),
            (&json!(3), &json!(1))
        );
        assert_eq!(world.call("GetProcessStatus", &named).await.json(), ended);
        let listed = world
            .call("ListProcesses", &json!({"sessionId": "box"}))
            .await
            .json();
        assert_eq!(listed["processes"][0], ended["process"]);

        let answers = world
            .stream("ProcessLogs", std::slice::from_ref(&named))
            .await;
        // Bytes are base64 in JSON; the process was started twice.
        assert_eq!(answers[0]["stream"], "LOG_STREAM_STDOUT");
        assert_eq!(answers[0]["data"], "dXAKdXAK");
        assert_eq!(answers.last(), Some(&json!({})));
        // Killing an exited process is no error.
        assert_eq!(
            world.call("KillProcess", &named).await.json()["process"],
            ended["process"]
        );
    });
}

#[test]
fn process_input_and_its_end_reach_the_process() {
    World::run(async |world| {
        let client = world.client(PROTOCOLS[0]).await;
        let id = &world.session(&client).await.id;
        let spec = ProcessSpec {
            stdin: StdinMode::Piped,
            ..ProcessSpec::new(["/bin/cat"])
        };
        let process = &client.launch_process(id, spec).await.unwrap().id;
        client
            .write_process_stdin(id, process, "one\n".into())
            .await
            .unwrap();
        let large = "x".repeat(3 << 20);
        client
            .write_process_stdin(id, process, large.into())
            .await
            .unwrap();
        client
            .write_process_stdin(id, process, "\nlast\n".into())
            .await
            .unwrap();
        client.close_process_stdin(id, process).await.unwrap();
        let ended = client
            .wait_process(id, process, WaitFor::Exited)
            .await
            .unwrap();
        assert_eq!(ended.exit.unwrap().code, Some(0));
        let tail = LogQuery {
            tail: Some(1),
            ..LogQuery::default()
        };
        assert_eq!(
            logs_text(client.process_logs(id, process, tail).await.unwrap()).await,
            "last\n"
        );
        // More was written than is retained, and `missed` counts it.
        let mut logs = client
            .process_logs(id, process, LogQuery::default())
            .await
            .unwrap();
        let first = logs.next().await.unwrap().unwrap();
        assert!(
            first.missed > 0 && first.offset == first.missed,
            "{} {}",
            first.missed,
            first.offset
        );

        let deaf = &client
            .launch_process(id, ProcessSpec::new(["/bin/sleep", "600"]))
            .await
            .unwrap()
            .id;
        let refused = client
            .write_process_stdin(id, deaf, "x".into())
            .await
            .unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidState);
        assert!(refused.hint().is_some());
        let size = TerminalSize {
            rows: 24,
            columns: 80,
        };
        client.resize_process(id, deaf, size).await.unwrap_err();
    });
}

#[test]
fn invalid_process_call_has_code_and_field() {
    World::run(async |world| {
        let client = world.client(PROTOCOLS[2]).await;
        let id = &world.session(&client).await.id;
        let (missing, nowhere) = (
            ProcessId::new("missing").unwrap(),
            SessionId::new("nowhere").unwrap(),
        );
        for error in [
            client.get_process_status(id, &missing).await.unwrap_err(),
            client.kill_process(id, &missing, 9).await.unwrap_err(),
            client
                .wait_process(id, &missing, WaitFor::Ready)
                .await
                .unwrap_err(),
            client.close_process_stdin(id, &missing).await.unwrap_err(),
        ] {
            assert_eq!(error.code(), ErrorCode::ProcessNotFound, "{error}");
        }
        let mut logs = client
            .process_logs(id, &missing, LogQuery::default())
            .await
            .unwrap();
        assert_eq!(
            logs.next().await.unwrap_err().code(),
            ErrorCode::ProcessNotFound
        );
        let error = client
            .launch_process(&nowhere, script("true"))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionNotFound);
        let error = client
            .launch_process(id, ProcessSpec::new(["no-such-program"]))
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::FileNotFound, Some("argv")),
            "{error}"
        );
        assert_eq!(client.list_processes(id).await.unwrap(), []);

        let late = ProcessSpec {
            ready: Readiness::Log {
                text: "never".into(),
            },
            ready_timeout: std::time::Duration::from_millis(50),
            ..script("echo still busy; exec sleep 600")
        };
        let process = &client.launch_process(id, late).await.unwrap().id;
        let error = client
            .wait_process(id, process, WaitFor::Ready)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::ProcessReadyTimeout, "{error}");
        let ended = client
            .wait_process(id, process, WaitFor::Exited)
            .await
            .unwrap();
        assert!(ended.exit.unwrap().not_ready);
    });
}
