//! Tool calls: executed once, and cancelled with their last caller.

use std::{pin::Pin, sync::Arc, time::Duration};

use sandbar_core::{ErrorCode, LaterSnapshots, SnapshotKind, ToolEvent};
use sandbar_host::HostConfig;
use serde_json::json;

use crate::{
    fixture::HostFixture,
    tools::{named, request},
};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A command that leaves a line for every time it runs.
const COUNTED: &str = "echo run >> count; cat count";

pub(crate) fn repeated_call_returns_the_stored_response(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let other = fixture.machine("other").await;
        let call = || named("call/1", "bash", json!({"cmd": COUNTED}));
        let first = fixture.host.execute_tool(&id, call()).await.unwrap();
        assert_eq!(first.content, "run\n");
        assert_eq!(fixture.host.execute_tool(&id, call()).await.unwrap(), first);
        // Streamed, the answer is the same.
        assert_eq!(fixture.stream(&id, call()).await.1.unwrap(), first);
        // Calls of other names and of other sessions are others.
        assert_eq!(
            fixture
                .host
                .execute_tool(&other, call())
                .await
                .unwrap()
                .content,
            "run\n"
        );
        assert_eq!(
            fixture.done(&id, "bash", json!({"cmd": COUNTED})).await,
            "run\nrun\n"
        );
        // A failure is an answer, too.
        let missing = || named("call/2", "read_file", json!({"path": "later"}));
        assert!(
            fixture
                .host
                .execute_tool(&id, missing())
                .await
                .unwrap()
                .is_error
        );
        fixture.write(&id, "later", "x").await;
        assert!(
            fixture
                .host
                .execute_tool(&id, missing())
                .await
                .unwrap()
                .is_error
        );
        fixture.restart().await;
        assert_eq!(fixture.host.execute_tool(&id, call()).await.unwrap(), first);
        fixture.host.destroy_session(&id).await.unwrap();
        let again = fixture.machine("s").await;
        assert_eq!(again, id);
        assert_eq!(
            fixture
                .host
                .execute_tool(&id, call())
                .await
                .unwrap()
                .content,
            "run\n"
        );
    })
}

pub(crate) fn callers_with_one_call_id_share_the_call(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let script = format!("{COUNTED}; until test -e go; do sleep 0.02; done; echo end");
        let call = || named("same", "bash", json!({"cmd": script}));
        let mut first = fixture.host.execute_tool_stream(&id, call()).await.unwrap();
        assert!(matches!(
            first.next_event().await,
            Some(Ok(ToolEvent::Progress(_)))
        ));
        let mut second = fixture.host.execute_tool_stream(&id, call()).await.unwrap();
        let host = Arc::clone(&fixture.host);
        let (third_id, third_call) = (id.clone(), call());
        let third = tokio::spawn(async move { host.execute_tool(&third_id, third_call).await });
        // The first caller drops the call; the others still wait.
        drop(first);
        fixture.write(&id, "go", "").await;
        let mut told = String::new();
        let second = loop {
            match second.next_event().await.unwrap().unwrap() {
                ToolEvent::Progress(progress) => told.push_str(&progress.content),
                ToolEvent::Finished(answer) => break answer,
            }
        };
        assert_eq!(
            (told.as_str(), second.content.as_str()),
            ("end\n", "run\nend\n")
        );
        assert_eq!(third.await.unwrap().unwrap(), second);
    })
}

pub(crate) fn dropped_call_is_cancelled_and_not_stored(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let script = format!("echo $$ > pid; {COUNTED}; test -e fast || sleep 1000");
        let call = || named("dropped", "bash", json!({"cmd": script}));
        let mut execution = fixture.host.execute_tool_stream(&id, call()).await.unwrap();
        execution.next_event().await.unwrap().unwrap();
        drop(execution);
        let gone = "while kill -0 $(cat pid) 2>&-; do sleep 0.02; done";
        fixture.done(&id, "bash", json!({"cmd": gone})).await;
        // It was cancelled, so it is done again.
        fixture.write(&id, "fast", "").await;
        assert_eq!(
            fixture
                .host
                .execute_tool(&id, call())
                .await
                .unwrap()
                .content,
            "run\nrun\n"
        );
        // Nothing is left that would hold the session back.
        fixture.snapshot(&id, "s").await;
        fixture
            .host
            .rollback_session(&id, &crate::fixture::snap("s"), LaterSnapshots::Drop)
            .await
            .unwrap();
    })
}

pub(crate) fn destroy_drains_tools_then_cancels_them(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let config = HostConfig {
            pause_drain_timeout: Duration::from_millis(200),
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        let id = fixture.machine("s").await;
        fixture.snapshot(&id, "s").await;
        let long = named("long", "bash", json!({"cmd": "echo begun; sleep 1000"}));
        let mut execution = fixture.host.execute_tool_stream(&id, long).await.unwrap();
        execution.next_event().await.unwrap().unwrap();
        let busy = fixture
            .host
            .rollback_session(&id, &crate::fixture::snap("s"), LaterSnapshots::Drop)
            .await;
        assert_eq!(busy.unwrap_err().code(), ErrorCode::ToolsInFlight);
        fixture.host.destroy_session(&id).await.unwrap();
        let ended = loop {
            match execution.next_event().await.unwrap() {
                Ok(ToolEvent::Progress(_)) => {}
                Ok(ToolEvent::Finished(answer)) => panic!("{answer:?}"),
                Err(error) => break error,
            }
        };
        assert_eq!(ended.code(), ErrorCode::Unavailable);
    })
}

pub(crate) fn shutdown_drains_tools_then_cancels_them(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let config = HostConfig {
            shutdown_timeout: Duration::from_millis(200),
            ..fixture.config.clone()
        };
        fixture.restart_with(config.clone()).await;
        let id = fixture.machine("s").await;
        let call = || {
            named(
                "stopped",
                "bash",
                json!({"cmd": format!("{COUNTED}; test -e fast || sleep 1000")}),
            )
        };
        let mut execution = fixture.host.execute_tool_stream(&id, call()).await.unwrap();
        execution.next_event().await.unwrap().unwrap();
        fixture.restart_with(config).await;
        while let Some(event) = execution.next_event().await {
            match event {
                Ok(ToolEvent::Finished(answer)) => panic!("{answer:?}"),
                Ok(ToolEvent::Progress(_)) => {}
                Err(error) => assert_eq!(error.code(), ErrorCode::Unavailable),
            }
        }
        fixture.write(&id, "fast", "").await;
        assert_eq!(
            fixture
                .host
                .execute_tool(&id, call())
                .await
                .unwrap()
                .content,
            "run\nrun\n"
        );
    })
}

pub(crate) fn per_tool_snapshots_follow_every_successful_call(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let config = HostConfig {
            per_tool_snapshots: true,
            max_snapshots_per_session: 3,
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        let id = fixture.session("s").await;
        let write = |call: &str, content: &str| {
            named(call, "write_file", json!({"path": "f", "content": content}))
        };
        let first = fixture
            .host
            .execute_tool(&id, write("call 1/é", "one"))
            .await
            .unwrap();
        let name = first.snapshot_id.clone().unwrap();
        assert!(name.as_str().starts_with("tool-call-1---"), "{name}");
        assert_eq!(
            fixture
                .host
                .execute_tool(&id, write("call 1/é", "one"))
                .await
                .unwrap(),
            first
        );
        let failed = fixture
            .host
            .execute_tool(&id, request("read_file", json!({"path": "none"})))
            .await
            .unwrap();
        assert_eq!(failed.snapshot_id, None);
        fixture
            .host
            .execute_tool(&id, write("2", "two"))
            .await
            .unwrap();
        let snapshots = fixture.host.list_snapshots(&id).await.unwrap();
        assert!(
            snapshots.len() == 2
                && snapshots
                    .iter()
                    .all(|snapshot| snapshot.kind == SnapshotKind::Tool)
        );
        fixture
            .host
            .rollback_session(&id, &name, LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("one"));
        for number in 3..8 {
            fixture
                .host
                .execute_tool(&id, write(&number.to_string(), "x"))
                .await
                .unwrap();
        }
        assert_eq!(fixture.snapshot_names(&id).await.len(), 3);
    })
}
