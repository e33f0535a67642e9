//! `AttachProcess` over the wire.

use sandbar_client::RemoteAttachment;
use sandbar_core::{
    AttachEvent, ErrorCode, ProcessId, ProcessSpec, Replay, StdinMode, TerminalSize,
};
use sandbar_server::{ServerConfig, serve};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{PROTOCOLS, World};

fn script(script: &str) -> ProcessSpec {
    ProcessSpec {
        stdin: StdinMode::Piped,
        ..ProcessSpec::new(["/bin/sh", "-c", script])
    }
}

async fn until(attachment: &mut RemoteAttachment, end: &str) -> String {
    let mut said = String::new();
    while !said.ends_with(end) {
        match attachment.next_event().await.unwrap() {
            Some(AttachEvent::Stdout(bytes) | AttachEvent::Stderr(bytes)) => {
                said.push_str(std::str::from_utf8(&bytes).unwrap());
            }
            other => panic!("{other:?} after {said:?}"),
        }
    }
    said
}

#[test]
fn attach_works_over_every_protocol_and_process_survives_it() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let id = &world.session(&client).await.id;
            let echo =
                "echo before; while read line; do echo \"got $line\"; done; echo over >&2; exit 3";
            let process = &client.launch_process(id, script(echo)).await.unwrap().id;
            let mut first = client
                .attach_process(id, process, Replay::All)
                .await
                .unwrap();
            assert_eq!((&first.process.id, first.has_terminal), (process, false));
            until(&mut first, "before\n").await;
            first.stdin().unwrap().write("one\n".into()).await.unwrap();
            until(&mut first, "got one\n").await;
            drop(first);
            let mut second = client
                .attach_process(id, process, Replay::None)
                .await
                .unwrap();
            let stdin = second.stdin().unwrap();
            // More than the stdin window, so that the test depends on `stdin_taken`.
            let long = "x".repeat(600_000);
            let feeder = tokio::spawn(async move {
                stdin.write(format!("{long}\n").into()).await.unwrap();
                stdin.close().await.unwrap();
            });
            // The two streams arrive in any order, and the exit event after both.
            let (mut said, mut complained) = (0, 0);
            let exit = loop {
                match second.next_event().await.unwrap() {
                    Some(AttachEvent::Stdout(bytes)) => said += bytes.len(),
                    Some(AttachEvent::Stderr(bytes)) => complained += bytes.len(),
                    Some(AttachEvent::Exited(exit)) => break exit,
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(
                (said, complained),
                ("got \n".len() + 600_000, "over\n".len())
            );
            feeder.await.unwrap();
            assert_eq!(exit.code, Some(3));
            assert_eq!(second.next_event().await.unwrap(), None);
        }
    });
}

#[test]
fn attach_delivers_signals_and_terminal_sizes() {
    World::run(async |world| {
        let client = world.client(PROTOCOLS[2]).await;
        let id = &world.session(&client).await.id;
        let size = Some(TerminalSize {
            rows: 24,
            columns: 80,
        });
        let spec = ProcessSpec {
            terminal: size,
            ..script("trap 'echo resized' WINCH; echo up; while :; do sleep 0.01; done")
        };
        let process = &client.launch_process(id, spec).await.unwrap().id;
        let mut attached = client
            .attach_process(id, process, Replay::All)
            .await
            .unwrap();
        assert!(attached.has_terminal);
        until(&mut attached, "up\r\n").await;
        attached
            .resize(TerminalSize {
                rows: 10,
                columns: 20,
            })
            .await
            .unwrap();
        until(&mut attached, "resized\r\n").await;
        attached.signal(15).await.unwrap();
        loop {
            match attached.next_event().await.unwrap() {
                Some(AttachEvent::Exited(exit)) => {
                    assert_eq!(
                        (exit.signal, exit.reason.as_deref()),
                        (Some(15), Some("killed"))
                    );
                    break;
                }
                Some(AttachEvent::Stdout(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn attach_request_end_keeps_the_process_and_its_stdin() {
    World::run(async |world| {
        let client = world.client(PROTOCOLS[0]).await;
        let id = &world.session(&client).await.id;
        let process = &client
            .launch_process(
                id,
                script("read line; echo \"got $line\"; read line; exit 5"),
            )
            .await
            .unwrap()
            .id;
        let attach = json!({"attach": {"sessionId": id.as_str(), "processId": process.as_str(), "replay": "REPLAY_ALL"}});
        // All requests are sent before any response is read, so another caller has to end the
        // process.
        let requests = [attach, json!({"stdin": "aGVsbG8K"})];
        let whole_call = world.stream("AttachProcess", &requests);
        let other = async {
            let mut other = client
                .attach_process(id, process, Replay::All)
                .await
                .unwrap();
            until(&mut other, "got hello\n").await;
            other.stdin().unwrap().write("\n".into()).await.unwrap();
            // Only now the written input is certainly sent.
            assert!(matches!(
                other.next_event().await.unwrap(),
                Some(AttachEvent::Exited(_))
            ));
        };
        let (answers, ()) = tokio::join!(whole_call, other);
        assert_eq!(
            answers[0]["attached"]["process"]["processId"],
            process.as_str()
        );
        assert!(
            answers.iter().any(|answer| answer["stdinTaken"] == "6"),
            "{answers:?}"
        );
        assert_eq!(
            answers[answers.len() - 2]["exited"]["code"],
            5,
            "{answers:?}"
        );
        assert_eq!(answers.last().unwrap(), &json!({}));
    });
}

#[test]
fn attach_message_out_of_order_is_rejected() {
    World::run(async |world| {
        let client = world.client(PROTOCOLS[0]).await;
        let id = &world.session(&client).await.id;
        let quiet = ProcessSpec {
            stdin: StdinMode::Null,
            ..script("exec sleep 600")
        };
        let process = &client.launch_process(id, quiet).await.unwrap().id;
        let attach = json!({"attach": {"sessionId": id.as_str(), "processId": process.as_str()}});
        for (wrong, field) in [
            (attach.clone(), "request"),
            (json!({"stdin": "YQ=="}), "stdin"),
            (json!({"signal": 999}), "signal"),
            (json!({}), "request"),
        ] {
            let answers = world
                .stream("AttachProcess", &[attach.clone(), wrong])
                .await;
            let end = answers.last().unwrap();
            assert_eq!(
                end["error"]["details"][0]["debug"]["field"], field,
                "{answers:?}"
            );
        }
        let answers = world
            .stream("AttachProcess", &[json!({"stdin": "YQ=="})])
            .await;
        assert_eq!(
            answers.last().unwrap()["error"]["details"][0]["debug"]["field"],
            "request"
        );
        let missing = ProcessId::new("missing").unwrap();
        let error = client
            .attach_process(id, &missing, Replay::None)
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::ProcessNotFound, Some("process_id"))
        );
        assert!(
            client
                .get_process_status(id, process)
                .await
                .unwrap()
                .exit
                .is_none()
        );
    });
}

#[test]
fn attach_and_watch_end_at_server_shutdown() {
    World::run(async |world| {
        let client = world.client(PROTOCOLS[2]).await;
        let id = &world.session(&client).await.id;
        let process = &client
            .launch_process(id, script("exec sleep 600"))
            .await
            .unwrap()
            .id;
        let stop = CancellationToken::new();
        let server = serve(
            world.host.clone(),
            ServerConfig::new("127.0.0.1:0".parse().unwrap(), None),
            stop.clone(),
        );
        let server = server.await.unwrap();
        let other = sandbar_client::Client::connect(&format!("http://{}", server.address()), None)
            .await
            .unwrap();
        let mut attached = other
            .attach_process(id, process, Replay::None)
            .await
            .unwrap();
        let mut events = other
            .watch_events(sandbar_core::EventQuery::default())
            .await
            .unwrap();
        let mut watch = other
            .watch_dir(id, "/workspace".as_ref(), true)
            .await
            .unwrap();
        stop.cancel();
        assert_eq!(
            attached.next_event().await.unwrap_err().code(),
            ErrorCode::Unavailable
        );
        assert_eq!(
            events.next().await.unwrap_err().code(),
            ErrorCode::Unavailable
        );
        assert_eq!(
            watch.next().await.unwrap_err().code(),
            ErrorCode::Unavailable
        );
        drop((attached, events, watch, other));
        server.finished().await.unwrap();
        assert!(
            client
                .get_process_status(id, process)
                .await
                .unwrap()
                .exit
                .is_none()
        );
    });
}
