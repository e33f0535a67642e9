//! Sessions whose clock is stopped.

use std::{pin::Pin, time::Duration};

use sandbar_core::{
    ErrorCode, ExecEvent, ExecSpec, ForkRequest, Keep, LaterSnapshots, ProcessSpec, Quiesce,
    SessionId, SessionState, ToolEvent, WriteOptions,
};
use sandbar_host::HostConfig;
use serde_json::json;

use crate::{
    fixture::{HostFixture, snap, spec},
    tools::request,
};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Counts up in a file, as fast as a file can be replaced.
const COUNTER: &str = "i=0; while :; do i=$((i+1)); echo $i > next; mv next count; done";

async fn count(fixture: &HostFixture, id: &SessionId) -> u64 {
    fixture
        .read(id, "/workspace/count")
        .await
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Waits until the counter is higher than `than`.
async fn counted(fixture: &HostFixture, id: &SessionId, than: u64) -> u64 {
    fixture
        .eventually("the counter goes on", async || {
            Some(count(fixture, id).await).filter(|now| *now > than)
        })
        .await
}

pub(crate) fn paused_session_makes_no_progress_until_resumed(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let _counter = fixture
            .host
            .exec(&id, ExecSpec::new(["/bin/sh", "-c", COUNTER]))
            .await
            .unwrap();
        counted(fixture, &id, 0).await;
        assert_eq!(
            fixture.host.pause_session(&id).await.unwrap().state,
            SessionState::Paused
        );
        let frozen = count(fixture, &id).await;
        // Another session runs a few commands meanwhile: time in which the counter would advance.
        let neighbour = fixture.machine("neighbour").await;
        for _ in 0..5 {
            fixture.shell(&neighbour, "true").await;
        }
        assert_eq!(count(fixture, &id).await, frozen);
        assert_eq!(
            fixture.host.pause_session(&id).await.unwrap_err().code(),
            ErrorCode::SessionPaused
        );
        assert_eq!(
            fixture.host.resume_session(&id).await.unwrap().state,
            SessionState::Active
        );
        counted(fixture, &id, frozen).await;
        assert_eq!(
            fixture.host.resume_session(&id).await.unwrap_err().code(),
            ErrorCode::InvalidState
        );
    })
}

pub(crate) fn paused_session_is_readable_and_not_writable(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture.write(&id, "/workspace/file", "content").await;
        let mut half = fixture
            .host
            .write_file(&id, "/workspace/half".as_ref(), WriteOptions::default())
            .await
            .unwrap();
        half.write("x".into()).await.unwrap();
        fixture.host.pause_session(&id).await.unwrap();

        assert_eq!(
            fixture.read(&id, "/workspace/file").await.as_deref(),
            Some("content")
        );
        fixture
            .host
            .stat(&id, "/workspace/file".as_ref())
            .await
            .unwrap();
        fixture.snapshot(&id, "while-paused").await;
        assert_eq!(
            fixture
                .host
                .diff(&id, &snap("while-paused"), None)
                .await
                .unwrap(),
            []
        );
        fixture
            .host
            .delete_snapshot(&id, &snap("while-paused"))
            .await
            .unwrap();

        let tool = request("read_file", json!({"path": "file"}));
        let refused = [
            fixture.host.exec(&id, ExecSpec::new(["true"])).await.err(),
            fixture.host.execute_tool(&id, tool).await.err(),
            fixture.host.turn_complete(&id).await.err(),
            fixture
                .host
                .write_file(&id, "/workspace/new".as_ref(), WriteOptions::default())
                .await
                .err(),
            fixture
                .host
                .import_tree(&id, "/workspace".as_ref())
                .await
                .err(),
            half.commit().await.err(),
        ];
        for error in refused {
            let error = error.unwrap();
            assert_eq!(error.code(), ErrorCode::SessionPaused, "{}", error.chain());
        }
        fixture.host.resume_session(&id).await.unwrap();
        assert_eq!(fixture.read(&id, "/workspace/half").await, None);
        assert_eq!(
            fixture.host.turn_complete(&id).await.unwrap().name,
            snap("turn-0001")
        );
    })
}

pub(crate) fn paused_session_is_rolled_back_forked_and_destroyed(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture.write(&id, "/workspace/file", "old").await;
        fixture.snapshot(&id, "old").await;
        fixture.write(&id, "/workspace/file", "new").await;
        let _counter = fixture
            .host
            .exec(&id, ExecSpec::new(["/bin/sh", "-c", COUNTER]))
            .await
            .unwrap();
        fixture.host.pause_session(&id).await.unwrap();
        let forks = fixture
            .host
            .fork_session(&id, ForkRequest::default())
            .await
            .unwrap();
        assert_eq!(forks[0].state, SessionState::Active);
        assert_eq!(
            fixture
                .read(&forks[0].id, "/workspace/file")
                .await
                .as_deref(),
            Some("new")
        );
        let back = fixture
            .host
            .rollback_session(&id, &snap("old"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(back.state, SessionState::Paused);
        assert_eq!(
            fixture.read(&id, "/workspace/file").await.as_deref(),
            Some("old")
        );
        fixture.host.resume_session(&id).await.unwrap();
        assert_eq!(fixture.shell(&id, "cat file").await.0, "old");
        fixture.host.pause_session(&id).await.unwrap();
        fixture.host.destroy_session(&id).await.unwrap();
        assert_eq!(
            fixture.host.get_session(&id).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
    })
}

pub(crate) fn pause_waits_for_tools_until_its_timeout(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let config = HostConfig {
            pause_drain_timeout: Duration::from_millis(50),
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        let id = fixture.machine("s").await;
        let wait = request(
            "bash",
            json!({"cmd": "touch begun; until test -e end; do :; done"}),
        );
        let mut tool = fixture.host.execute_tool_stream(&id, wait).await.unwrap();
        fixture
            .eventually("the tool runs", async || {
                fixture.read(&id, "/workspace/begun").await
            })
            .await;
        let error = fixture.host.pause_session(&id).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ToolsInFlight);
        assert!(error.message().contains('1'), "{error}");
        assert_eq!(
            fixture.host.get_session(&id).await.unwrap().state,
            SessionState::Active
        );
        // The admission lock is open again: the file can be written, the tool ends, and the next
        // pause succeeds.
        fixture.write(&id, "/workspace/end", "").await;
        while !matches!(
            tool.next_event().await.unwrap().unwrap(),
            ToolEvent::Finished(_)
        ) {}
        fixture.host.pause_session(&id).await.unwrap();
    })
}

pub(crate) fn idle_session_is_paused_by_the_janitor(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let mut idle = spec("idle");
        idle.idle_timeout = Some(Duration::from_millis(30));
        idle.base = "host".parse().unwrap();
        let mut used = idle.clone();
        used.id = Some("used".parse().unwrap());
        let (idle, used) = (fixture.make(idle).await.id, fixture.make(used).await.id);
        // A running command counts as a use.
        let command = fixture
            .host
            .exec(&used, ExecSpec::new(["sleep", "600"]))
            .await;
        let state = async |id: &SessionId| fixture.host.get_session(id).await.unwrap().state;
        fixture
            .eventually("it is paused", async || {
                (state(&idle).await == SessionState::Paused).then_some(())
            })
            .await;
        if let Ok(command) = command {
            assert_eq!(state(&used).await, SessionState::Active);
            drop(command);
        }
        fixture
            .eventually("it is paused", async || {
                (state(&used).await == SessionState::Paused).then_some(())
            })
            .await;
    })
}

pub(crate) fn paused_session_is_still_paused_after_restart(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture.shell(&id, "echo content > file").await;
        fixture.host.pause_session(&id).await.unwrap();
        fixture.restart().await;
        assert_eq!(
            fixture.host.get_session(&id).await.unwrap().state,
            SessionState::Paused
        );
        let refused = fixture
            .host
            .exec(&id, ExecSpec::new(["true"]))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), ErrorCode::SessionPaused);
        fixture.host.resume_session(&id).await.unwrap();
        assert_eq!(fixture.shell(&id, "cat file").await.0, "content\n");
    })
}

pub(crate) fn quiesced_snapshot_is_consistent(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        // Two files that are never more than one apart, in a fixed order.
        let pair =
            "i=0; while :; do i=$((i+1)); echo $i > n; mv n first; echo $i > n; mv n second; done";
        let id = fixture.machine("s").await;
        let _writer = fixture
            .host
            .exec(&id, ExecSpec::new(["/bin/sh", "-c", pair]))
            .await
            .unwrap();
        fixture
            .eventually("both are there", async || {
                fixture.read(&id, "/workspace/second").await
            })
            .await;
        for round in 0..5 {
            let name = snap(&format!("moment-{round}"));
            fixture
                .host
                .create_snapshot(&id, Some(name.clone()), Quiesce::Always)
                .await
                .unwrap();
            let request = ForkRequest {
                from: Some(name),
                ..ForkRequest::default()
            };
            let from_snapshot = fixture
                .host
                .fork_session(&id, request)
                .await
                .unwrap()
                .remove(0)
                .id;
            let from_now = fixture
                .host
                .fork_session(&id, ForkRequest::default())
                .await
                .unwrap()
                .remove(0)
                .id;
            for fork in [from_snapshot, from_now] {
                let read = async |path: &str| {
                    fixture
                        .read(&fork, path)
                        .await
                        .unwrap()
                        .trim()
                        .parse::<u64>()
                        .unwrap()
                };
                let (first, second) = (
                    read("/workspace/first").await,
                    read("/workspace/second").await,
                );
                assert!(
                    first == second || first == second + 1,
                    "{first} and {second} are not of one moment"
                );
            }
        }
        // It continues afterwards.
        let now = fixture.read(&id, "/workspace/second").await;
        fixture
            .eventually("the writer goes on", async || {
                (fixture.read(&id, "/workspace/second").await != now).then_some(())
            })
            .await;
    })
}

pub(crate) fn session_is_paused_without_memory(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture.write(&id, "/workspace/file", "kept").await;
        let process = fixture
            .host
            .launch_process(&id, ProcessSpec::new(["/bin/sleep", "600"]))
            .await
            .unwrap();
        let mut command = fixture
            .host
            .exec(&id, ExecSpec::new(["/bin/sleep", "600"]))
            .await
            .unwrap();
        let paused = fixture
            .host
            .pause_session_keeping(&id, Keep::Files)
            .await
            .unwrap();
        assert_eq!(paused.state, SessionState::Paused);
        // The command has ended, and its caller gets the exit.
        while !matches!(
            command.next_event().await,
            Some(ExecEvent::Exited(_)) | None
        ) {}
        let ended = fixture
            .host
            .get_process_status(&id, &process.id)
            .await
            .unwrap();
        assert_eq!(
            ended.exit.unwrap().reason.as_deref(),
            Some("paused without memory")
        );
        for keep in [Keep::Files, Keep::Memory] {
            let error = fixture
                .host
                .pause_session_keeping(&id, keep)
                .await
                .unwrap_err();
            assert!(
                matches!(error.code(), ErrorCode::SessionPaused),
                "{}",
                error.chain()
            );
        }
        // It can be looked at and copied, and nothing runs in it.
        assert_eq!(
            fixture.read(&id, "/workspace/file").await.as_deref(),
            Some("kept")
        );
        fixture.snapshot(&id, "while-paused").await;
        let error = fixture
            .host
            .exec(&id, ExecSpec::new(["/bin/true"]))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionPaused);
        let fork = fixture
            .host
            .fork_session(&id, ForkRequest::default())
            .await
            .unwrap()
            .remove(0)
            .id;
        assert_eq!(fixture.shell(&fork, "cat /workspace/file").await.0, "kept");

        assert_eq!(
            fixture.host.resume_session(&id).await.unwrap().state,
            SessionState::Active
        );
        let (output, code) = fixture
            .shell(&id, "cat /workspace/file; echo > /workspace/new")
            .await;
        assert_eq!((output.as_str(), code), ("kept", Some(0)));
        fixture
            .host
            .pause_session_keeping(&id, Keep::Files)
            .await
            .unwrap();
        fixture
            .host
            .rollback_session(&id, &snap("while-paused"), LaterSnapshots::Drop)
            .await
            .unwrap();
        fixture.host.destroy_session(&id).await.unwrap();
    })
}

pub(crate) fn pause_without_memory_survives_restart_without_freezer(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let (id, empty) = (fixture.machine("s").await, fixture.session("empty").await);
        fixture.write(&id, "/workspace/file", "kept").await;
        fixture.shell(&id, "true").await;
        for id in [&id, &empty] {
            fixture
                .host
                .pause_session_keeping(id, Keep::Files)
                .await
                .unwrap();
        }
        fixture.restart().await;
        for id in [&id, &empty] {
            assert_eq!(
                fixture.host.get_session(id).await.unwrap().state,
                SessionState::Paused
            );
            assert_eq!(
                fixture.host.resume_session(id).await.unwrap().state,
                SessionState::Active
            );
        }
        assert_eq!(fixture.shell(&id, "cat /workspace/file").await.0, "kept");
    })
}
