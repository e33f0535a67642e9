//! `Exec` over the wire.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use sandbar_client::WireProtocol;
use sandbar_core::{ErrorCode, ExecEvent, ExecSpec, Resources, SessionId, StdinMode, TerminalSize};
use serde_json::json;

use crate::{
    raw::{exchange, frames},
    world::{Ended, PROTOCOLS, World, shell},
};

/// Process watched by pidfd, as its pid may be reused.
pub(crate) struct Watched(OwnedFd);

impl Watched {
    pub(crate) fn new(pid: u32) -> Self {
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        Self(pidfd_open(pid, PidfdFlags::empty()).unwrap())
    }

    pub(crate) async fn has_died(self) {
        let wait = move || poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None);
        assert_eq!(tokio::task::spawn_blocking(wait).await.unwrap(), Ok(1));
    }
}

fn piped(script: &str) -> ExecSpec {
    ExecSpec {
        stdin: StdinMode::Piped,
        ..shell(script)
    }
}

#[test]
fn cancelled_call_kills_its_command_over_every_protocol() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let session = world.session(&keeper).await;
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let mut command = client
                .exec(&session.id, shell("sleep 1000 & echo $!; wait"))
                .await
                .unwrap();
            let Some(ExecEvent::Stdout(child)) = command.next_event().await.unwrap() else {
                panic!("no output")
            };
            let child = Watched::new(std::str::from_utf8(&child).unwrap().trim().parse().unwrap());
            let shell = Watched::new(command.pid);
            drop(command);
            shell.has_died().await;
            child.has_died().await;
            // The connection is still usable.
            client.health().await.unwrap();
        }
    });
}

#[test]
fn lost_http1_connection_kills_its_command() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let start =
            json!({"start": {"sessionId": session.id.as_str(), "argv": ["/bin/sleep", "1000"]}});
        let request = world.request("Exec", "application/connect+json", frames(&[start]));
        let mut exchange = exchange(world.address, request).await;
        let frame = exchange
            .response
            .body_mut()
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap();
        let started: serde_json::Value = serde_json::from_slice(&frame[5..]).unwrap();
        let process =
            Watched::new(u32::try_from(started["started"]["pid"].as_u64().unwrap()).unwrap());
        drop(exchange);
        process.has_died().await;
    });
}

#[test]
fn large_stdin_and_stdout_pass_over_every_protocol() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let session = world.session(&keeper).await;
        let payload: Bytes = (0..5_000_000u32)
            .map(|n| n.to_le_bytes()[usize::try_from(n % 3).unwrap()])
            .collect();
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let command = client
                .exec(&session.id, piped("cat; echo done >&2"))
                .await
                .unwrap();
            let stdin = command.stdin().unwrap();
            let input = payload.clone();
            let feeder = tokio::spawn(async move {
                stdin.write(input).await.unwrap();
                stdin.close().await.unwrap();
            });
            let ended = Ended::of(command).await;
            feeder.await.unwrap();
            assert!(
                ended.stdout == payload,
                "{} bytes came back",
                ended.stdout.len()
            );
            assert_eq!(
                (ended.stderr.as_slice(), ended.status.code),
                (&b"done\n"[..], Some(0))
            );
        }
    });
}

#[test]
fn stalled_call_does_not_block_others() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        // Each writes far more than all buffers on the way hold.
        let mut unread = Vec::new();
        for _ in 0..8 {
            unread.push(
                client
                    .exec(
                        &session.id,
                        shell("while :; do echo 0123456789012345678901234567890123456789; done"),
                    )
                    .await
                    .unwrap(),
            );
        }
        let mut deaf = Vec::new();
        for _ in 0..4 {
            let command = client.exec(&session.id, piped("sleep 1000")).await.unwrap();
            let stdin = command.stdin().unwrap();
            let feeder = tokio::spawn(async move { stdin.write(vec![7; 16 << 20].into()).await });
            deaf.push((command, feeder));
        }
        // The same connection still serves calls with bodies in both directions.
        for _ in 0..20 {
            let ended = Ended::of(
                client
                    .exec(&session.id, shell("echo through"))
                    .await
                    .unwrap(),
            )
            .await;
            assert_eq!(ended.text(), "through\n");
        }
        let processes: Vec<_> = unread
            .iter()
            .chain(deaf.iter().map(|(command, _)| command))
            .map(|command| Watched::new(command.pid))
            .collect();
        drop(unread);
        for (command, feeder) in deaf {
            drop(command);
            assert!(
                feeder.await.unwrap().is_err(),
                "a dead command took all its input"
            );
        }
        for process in processes {
            process.has_died().await;
        }
    });
}

#[test]
fn signals_reach_the_command() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Grpc).await;
        let session = world.session(&client).await;
        let script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.01; done";
        let mut command = client.exec(&session.id, shell(script)).await.unwrap();
        assert_eq!(
            command.next_event().await.unwrap(),
            Some(ExecEvent::Stdout("ready\n".into()))
        );
        command.signal(2).await.unwrap();
        let ended = Ended::of(command).await;
        assert_eq!((ended.text(), ended.status.code), ("caught\n", Some(5)));

        let command = client.exec(&session.id, shell("sleep 1000")).await.unwrap();
        command.control().signal(9).await.unwrap();
        assert_eq!(Ended::of(command).await.status.signal, Some(9));
    });
}

#[test]
fn resize_without_a_terminal_ends_the_command() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let mut command = client
            .exec(&session.id, shell("exec sleep 1000"))
            .await
            .unwrap();
        let process = Watched::new(command.pid);
        command
            .resize(TerminalSize {
                rows: 24,
                columns: 80,
            })
            .await
            .unwrap();
        assert_eq!(
            command.next_event().await.unwrap_err().code(),
            ErrorCode::InvalidState
        );
        process.has_died().await;
    });
}

#[test]
fn signal_overtakes_unread_stdin() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let script = "trap 'exit 5' INT; echo ready; while :; do sleep 0.01; done";
        let mut command = client.exec(&session.id, piped(script)).await.unwrap();
        assert_eq!(
            command.next_event().await.unwrap(),
            Some(ExecEvent::Stdout("ready\n".into()))
        );
        let stdin = command.stdin().unwrap();
        // Stdin written after the command has exited is discarded.
        let feeder = tokio::spawn(async move {
            loop {
                if let Err(error) = stdin.write(vec![7; 1 << 20].into()).await {
                    return error;
                }
            }
        });
        command.signal(2).await.unwrap();
        assert_eq!(Ended::of(command).await.status.code, Some(5));
        assert_eq!(feeder.await.unwrap().code(), ErrorCode::InvalidState);
    });
}

#[test]
fn command_limits_are_enforced_and_reported() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let mut spec = shell("sleep 1000");
        spec.resources = Resources {
            wall_time: Some(std::time::Duration::from_millis(50)),
            ..Resources::default()
        };
        let ended = Ended::of(client.exec(&session.id, spec).await.unwrap()).await;
        assert!(ended.status.timed_out);
        let mut spec = shell("echo 12345678; pwd");
        spec.resources = Resources {
            output: Some(sandbar_core::ByteCount(4)),
            ..Resources::default()
        };
        spec.cwd = Some("/tmp".into());
        let ended = Ended::of(client.exec(&session.id, spec).await.unwrap()).await;
        assert!(ended.status.truncated);
        assert_eq!(ended.text(), "1234");
    });
}

#[test]
fn exec_message_out_of_order_ends_the_command() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let start =
            json!({"start": {"sessionId": session.id.as_str(), "argv": ["/bin/sleep", "1000"]}});
        for (wrong, field) in [
            (start.clone(), "request"),
            (json!({"stdin": "YQ=="}), "stdin"),
            (json!({"signal": 999}), "signal"),
            (json!({"signal": 0}), "signal"),
            (json!({}), "request"),
        ] {
            let answers = world.stream("Exec", &[start.clone(), wrong]).await;
            let end = answers.last().unwrap();
            assert_eq!(end["error"]["code"], "invalid_argument", "{answers:?}");
            assert_eq!(
                end["error"]["details"][0]["debug"]["field"], field,
                "{answers:?}"
            );
        }
        let error = client
            .exec(&SessionId::new("missing").unwrap(), shell("true"))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionNotFound);
        let error = client
            .exec(&session.id, ExecSpec::new(["/no/such/program"]))
            .await
            .unwrap_err();
        assert!(
            !matches!(error.code(), ErrorCode::Internal | ErrorCode::Unavailable),
            "{error:?}"
        );
    });
}

#[test]
fn exec_request_end_closes_stdin_only() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let start = json!({"start": {"sessionId": session.id.as_str(), "argv": ["/bin/cat"], "stdin": true}});
        let mut answers = world
            .stream("Exec", &[start, json!({"stdin": "aGVsbG8="})])
            .await;
        let taken = answers
            .iter()
            .position(|answer| *answer == json!({"stdinTaken": "5"}))
            .unwrap();
        answers.remove(taken);
        assert_eq!(answers[1], json!({"stdout": "aGVsbG8="}));
        assert_eq!(answers[2]["exited"]["code"], 0);
    });
}
