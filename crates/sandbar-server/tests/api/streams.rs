//! Long streams, slow readers, and repeated calls.

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use sandbar_client::{Client, WireProtocol};
use sandbar_core::{
    BaseName, ByteCount, ErrorCode, ExecEvent, ExecSpec, Resources, SessionId, SessionSpec,
    ToolCallId, ToolEvent, ToolRequest, ToolResponse,
};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::{
    exec::Watched,
    raw::{exchange, frames},
    world::{PROTOCOLS, World, shell},
};

/// 1 GiB in a full run; always more than the memory limit.
fn length() -> u64 {
    sandbar_testing::scaled(1 << 30, 128 << 20)
}

/// Limit on memory growth of this process, server and client together, during a transfer.
const MAX_MEMORY_GROWTH: u64 = 64 << 20;

/// Slow-reader timeout: shorter than any deliberate pause of a test, longer than accidental ones.
const IMPATIENT: Duration = Duration::from_millis(300);

const UNLIMITED: Resources = Resources {
    cpus: None,
    memory: None,
    pids: None,
    open_files: None,
    wall_time: None,
    output: Some(ByteCount(u64::MAX)),
};

/// Peak memory of this process since the last reset.
struct PeakMemory(u64);

impl PeakMemory {
    /// Resets the peak.
    fn watch() -> Self {
        fs::write("/proc/self/clear_refs", "5").unwrap();
        Self(Self::peak())
    }

    fn growth(&self) -> u64 {
        Self::peak().saturating_sub(self.0)
    }

    fn peak() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.trim()
            .strip_suffix(" kB")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            << 10
    }
}

/// Creates an isolated session with the host's programs.
async fn machine(client: &Client) -> SessionId {
    client
        .create_session(SessionSpec::new(BaseName::new("host").unwrap()))
        .await
        .unwrap()
        .id
}

#[test]
fn slow_reader_of_large_output_uses_bounded_memory() {
    World::run_isolated(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let id = machine(&client).await;
        let memory = PeakMemory::watch();
        let spec = ExecSpec {
            resources: UNLIMITED,
            ..ExecSpec::new(["head", "-c", &length().to_string(), "/dev/zero"])
        };
        let mut command = client.exec(&id, spec).await.unwrap();
        let mut received = 0;
        while let Some(event) = command.next_event().await.unwrap() {
            // Yields, so that all other tasks run first.
            tokio::task::yield_now().await;
            match event {
                ExecEvent::Stdout(bytes) => received += bytes.len() as u64,
                ExecEvent::Exited(status) => {
                    assert!(!status.truncated && status.code == Some(0), "{status:?}");
                }
                ExecEvent::Stderr(bytes) => panic!("{bytes:?}"),
            }
        }
        assert_eq!(received, length());
        assert!(
            memory.growth() < MAX_MEMORY_GROWTH,
            "{} bytes",
            memory.growth()
        );
    });
}

#[test]
fn slow_reader_of_a_large_file_uses_bounded_memory() {
    World::run_isolated(async |world| {
        let client = world.client(WireProtocol::Grpc).await;
        let id = machine(&client).await;
        let made = client
            .exec(
                &id,
                ExecSpec::new(["truncate", "-s", &length().to_string(), "big"]),
            )
            .await
            .unwrap();
        assert_eq!(crate::world::Ended::of(made).await.status.code, Some(0));
        let memory = PeakMemory::watch();
        let (mut target, mut reader) = tokio::io::duplex(64 << 10);
        let reading = tokio::spawn(async move {
            let (mut received, mut piece) = (0, vec![0; 64 << 10]);
            loop {
                tokio::task::yield_now().await;
                match reader.read(&mut piece).await.unwrap() {
                    0 => return received,
                    length => received += length as u64,
                }
            }
        });
        let stat = client
            .read_file(&id, Path::new("big"), &mut target)
            .await
            .unwrap();
        drop(target);
        assert_eq!(
            (stat.size, reading.await.unwrap()),
            (ByteCount(length()), length())
        );
        assert!(
            memory.growth() < MAX_MEMORY_GROWTH,
            "{} bytes",
            memory.growth()
        );
    });
}

#[test]
fn unread_output_ends_the_command_over_every_protocol() {
    World::run_with_slow_reader_timeout(IMPATIENT, async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let session = world.session(&keeper).await;
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let flood = ExecSpec {
                resources: UNLIMITED,
                ..shell("while :; do echo 0123456789; done")
            };
            let mut command = client.exec(&session.id, flood).await.unwrap();
            let process = Watched::new(command.pid);
            process.has_died().await;
            let error = loop {
                match command.next_event().await {
                    Ok(Some(ExecEvent::Stdout(_))) => {}
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.code(), ErrorCode::SlowReader, "{error:?}");
            assert!(
                error.hint().unwrap().contains("slow_reader_timeout"),
                "{error:?}"
            );
            // The connection is still usable, and a stream without items does not time out.
            client.health().await.unwrap();
        }
    });
}

#[test]
fn slow_http1_reader_gets_the_error_at_the_end() {
    World::run_with_slow_reader_timeout(IMPATIENT, async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let argv = [
            "/bin/sh",
            "-c",
            "while :; do echo 01234567890123456789012345678901234567890123456789; done",
        ];
        let start = json!({"start": {"sessionId": session.id.as_str(), "argv": argv, "resources": {"output": u64::MAX.to_string()}}});
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
        let started: Value = serde_json::from_slice(&frame[5..5 + frame[4] as usize]).unwrap();
        Watched::new(u32::try_from(started["started"]["pid"].as_u64().unwrap()).unwrap())
            .has_died()
            .await;
        let rest: Bytes = exchange
            .response
            .body_mut()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        let end = &rest[rest
            .windows(5)
            .rposition(|head| head[0] == 2 && head[1] == 0 && head[2] == 0)
            .unwrap()..];
        let end: Value = serde_json::from_slice(&end[5..]).unwrap();
        assert_eq!(end["error"]["code"], "resource_exhausted");
        assert_eq!(end["error"]["details"][0]["debug"]["code"], "SlowReader");
    });
}

#[test]
fn unread_progress_ends_the_tool() {
    World::run_with_slow_reader_timeout(IMPATIENT, async |world| {
        let client = world.client(WireProtocol::Grpc).await;
        let session = world.session(&client).await;
        let flood = "echo $$; while :; do echo 0123456789012345678901234567890123456789; done";
        let call = ToolRequest {
            resources: UNLIMITED,
            ..bash("1", flood)
        };
        let mut tool = client
            .execute_tool_stream(&session.id, &call)
            .await
            .unwrap();
        let Some(ToolEvent::Progress(first)) = tool.next_event().await.unwrap() else {
            panic!("no progress")
        };
        let process = Watched::new(first.content.lines().next().unwrap().parse().unwrap());
        process.has_died().await;
        let error = loop {
            match tool.next_event().await {
                Ok(Some(ToolEvent::Progress(_))) => {}
                Ok(other) => panic!("{other:?}"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), ErrorCode::SlowReader, "{error:?}");
    });
}

#[test]
fn unread_file_stream_is_closed() {
    World::run_with_slow_reader_timeout(IMPATIENT, async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let options = sandbar_core::WriteOptions::default();
        let content = tokio::io::repeat(7).take(32 << 20);
        client
            .write_file(&session.id, Path::new("unread-file"), options, content)
            .await
            .unwrap();
        let (mut target, mut reader) = tokio::io::duplex(64 << 10);
        let (id, other) = (session.id.clone(), client.clone());
        let reading = tokio::spawn(async move {
            other
                .read_file(&id, Path::new("unread-file"), &mut target)
                .await
        });
        let is_open = || {
            let links = fs::read_dir("/proc/self/fd")
                .unwrap()
                .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
            links.into_iter().any(|link| link.ends_with("unread-file"))
        };
        let mut rest = vec![reader.read_u8().await.unwrap()];
        let closed = move || sandbar_testing::eventually("the file is closed", || !is_open());
        tokio::task::spawn_blocking(closed).await.unwrap();
        reader.read_to_end(&mut rest).await.unwrap();
        assert_eq!(
            reading.await.unwrap().unwrap_err().code(),
            ErrorCode::SlowReader
        );
        assert!(!rest.is_empty() && rest.len() < 32 << 20, "{}", rest.len());
    });
}

fn bash(call: &str, script: &str) -> ToolRequest {
    let Value::Object(params) = json!({"cmd": script}) else {
        panic!("parameters are an object")
    };
    ToolRequest {
        tool: "bash".into(),
        call: ToolCallId::new(call).unwrap(),
        params,
        resources: Resources::default(),
    }
}

/// Calls a tool, streamed or not.
async fn call(
    client: &Client,
    id: &SessionId,
    request: &ToolRequest,
    streamed: bool,
) -> ToolResponse {
    if !streamed {
        return client.execute_tool(id, request).await.unwrap();
    }
    let mut tool = client.execute_tool_stream(id, request).await.unwrap();
    loop {
        if let ToolEvent::Finished(answer) = tool.next_event().await.unwrap().unwrap() {
            return answer;
        }
    }
}

/// Makes 50 calls over every protocol, half of them streaming; all get the same result.
async fn fifty_calls(world: &World, id: &SessionId, request: &ToolRequest) -> ToolResponse {
    let mut clients = Vec::new();
    for protocol in PROTOCOLS {
        clients.push(world.client(protocol).await);
    }
    let calls = (0..50).map(|number| {
        let (client, id, request) = (clients[number % 4].clone(), id.clone(), request.clone());
        tokio::spawn(async move { call(&client, &id, &request, number / 4 % 2 == 0).await })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.unwrap());
    }
    assert_eq!(answers.len(), 50);
    assert!(
        answers.windows(2).all(|pair| pair[0] == pair[1]),
        "{answers:#?}"
    );
    answers.remove(0)
}

#[test]
fn repeated_tool_call_is_executed_once_across_restarts() {
    // The result differs from run to run, and every run appends a line.
    let request = bash("the-one", "echo run >> runs; echo $$; cat runs; exit 3");
    let kept = std::sync::Mutex::new(None);
    World::run_and_start_again(
        async |world| {
            let client = world.client(WireProtocol::Connect).await;
            let session = world.session(&client).await;
            let answer = fifty_calls(world, &session.id, &request).await;
            assert_eq!(answer.exit_code, Some(3));
            assert!(answer.content.ends_with("\nrun\n"), "{}", answer.content);
            assert_eq!(fifty_calls(world, &session.id, &request).await, answer);
            *kept.lock().unwrap() = Some((session.id, answer));
        },
        async |world| {
            let (id, answer) = kept.lock().unwrap().take().unwrap();
            assert_eq!(fifty_calls(world, &id, &request).await, answer);
            let client = world.client(WireProtocol::Connect).await;
            let runs = call(&client, &id, &bash("count", "cat runs"), false).await;
            assert_eq!(runs.content, "run\n");
        },
    );
}
