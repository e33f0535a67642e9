//! Events for watchers.

use std::pin::Pin;

use futures::FutureExt as _;
use sandbar_core::{
    EventKind, EventNews, EventQuery, ForkRequest, LaterSnapshots, Resources, SessionEvent,
    SessionId, SessionState, ToolCallId, ToolRequest,
};
use sandbar_host::EventWatcher;
use serde_json::json;

use crate::{
    fixture::{HostFixture, snap, spec},
    processes::{log, script},
};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

async fn next(watcher: &mut EventWatcher) -> SessionEvent {
    match watcher.next().await {
        EventNews::Happened(event) => event,
        EventNews::Missed(count) => panic!("{count:?} events were missed"),
    }
}

/// Returns a summary of the next event, and asserts that it does not arrive early.
async fn told(watcher: &mut EventWatcher) -> (EventKind, Option<SessionState>) {
    let event = next(watcher).await;
    (event.kind, event.state)
}

fn write(call: &str) -> ToolRequest {
    let serde_json::Value::Object(params) = json!({"path": "f", "content": "x"}) else {
        panic!("no object")
    };
    ToolRequest {
        tool: "write_file".into(),
        call: ToolCallId::new(call).unwrap(),
        params,
        resources: Resources::default(),
    }
}

pub(crate) fn watcher_gets_every_change_of_a_session_in_order(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let host = fixture.host.clone();
        let mut watcher = host.watch_events(EventQuery::default());
        let begun = watcher.sequence();
        let mut labelled = spec("s");
        labelled.base = "host".parse().unwrap();
        labelled.labels.insert("task".into(), "42".into());
        let id = fixture.make(labelled).await.id;
        let first = next(&mut watcher).await;
        assert_eq!(
            (first.sequence, &first.session, first.actor.as_str()),
            (begun + 1, &id, "local")
        );
        assert_eq!(
            (first.kind, first.state),
            (EventKind::SessionCreated, Some(SessionState::Active))
        );
        assert_eq!(first.detail["base"], "host");

        host.execute_tool(&id, write("1")).await.unwrap();
        let tool = next(&mut watcher).await;
        assert_eq!(
            (tool.kind, tool.outcome.as_str(), &tool.detail["tool"]),
            (EventKind::ToolFinished, "ok", &json!("write_file"))
        );
        // Answered from memory: nothing happened.
        host.execute_tool(&id, write("1")).await.unwrap();
        fixture.snapshot(&id, "a").await;
        assert_eq!(next(&mut watcher).await.detail["snapshot"], "a");
        host.turn_complete(&id).await.unwrap();
        assert_eq!(told(&mut watcher).await, (EventKind::TurnCompleted, None));
        host.delete_snapshot(&id, &snap("a")).await.unwrap();
        assert_eq!(told(&mut watcher).await, (EventKind::SnapshotDeleted, None));
        let fork = ForkRequest {
            ids: vec!["copy".parse().unwrap()],
            ..ForkRequest::default()
        };
        host.fork_session(&id, fork).await.unwrap();
        let copy = next(&mut watcher).await;
        assert_eq!(
            (copy.kind, copy.session.as_str()),
            (EventKind::SessionCreated, "copy")
        );
        assert_eq!(next(&mut watcher).await.detail["sessions"], json!(["copy"]));

        let mut spec = script("echo up; read line; exit 7");
        (spec.ready, spec.stdin) = (log("up"), sandbar_core::StdinMode::Piped);
        let process = fixture.launch(&id, spec).await;
        let launched = next(&mut watcher).await;
        // The event of readiness may precede that of the launch.
        let ready = next(&mut watcher).await;
        let mut kinds = [launched.kind, ready.kind];
        kinds.sort_by_key(|kind| kind.as_str());
        assert_eq!(kinds, [EventKind::ProcessLaunched, EventKind::ProcessReady]);
        assert_eq!(
            (&launched.detail["process"], &ready.detail["process"]),
            (&json!(process.as_str()), &json!(process.as_str()))
        );
        host.close_process_stdin(&id, &process).await.unwrap();
        let exited = next(&mut watcher).await;
        assert_eq!(
            (exited.kind, &exited.detail["code"]),
            (EventKind::ProcessExited, &json!(7))
        );
        assert_eq!(exited.actor.as_str(), "host");

        let turn = host.list_snapshots(&id).await.unwrap().remove(0).name;
        host.rollback_session(&id, &turn, LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(told(&mut watcher).await, (EventKind::RolledBack, None));
        if host.capabilities().pause.is_yes() {
            host.pause_session(&id).await.unwrap();
            assert_eq!(
                told(&mut watcher).await,
                (EventKind::StateChanged, Some(SessionState::Paused))
            );
            // A refused verb is no event.
            host.execute_tool(&id, write("2")).await.unwrap_err();
            host.resume_session(&id).await.unwrap();
            assert_eq!(
                told(&mut watcher).await,
                (EventKind::StateChanged, Some(SessionState::Active))
            );
        }
        host.hibernate_session(&id).await.unwrap();
        assert_eq!(
            told(&mut watcher).await,
            (EventKind::StateChanged, Some(SessionState::Hibernated))
        );
        host.wake_session(&id).await.unwrap();
        assert_eq!(
            told(&mut watcher).await,
            (EventKind::StateChanged, Some(SessionState::Active))
        );
        host.destroy_session(&id).await.unwrap();
        let last = next(&mut watcher).await;
        assert_eq!(
            (last.kind, &last.session),
            (EventKind::SessionDestroyed, &id)
        );
        assert_eq!(watcher.next().now_or_never(), None);

        // All of it again, and only what was asked for.
        let of = |query: EventQuery| EventQuery {
            since: Some(begun),
            ..query
        };
        let mut again = host.watch_events(of(EventQuery::default()));
        let mut number = begun;
        while let Some(EventNews::Happened(event)) = again.next().now_or_never() {
            number += 1;
            assert_eq!(event.sequence, number);
        }
        assert_eq!(number, last.sequence);
        let labels = [("task".to_owned(), "42".to_owned())].into();
        let kinds = vec![EventKind::SessionDestroyed];
        let mut ends = host.watch_events(of(EventQuery {
            labels,
            kinds,
            ..EventQuery::default()
        }));
        assert_eq!(next(&mut ends).await.session, id);
        let missing = Some(SessionId::new("missing").unwrap());
        let mut nothing = host.watch_events(of(EventQuery {
            session: missing,
            ..EventQuery::default()
        }));
        assert_eq!(nothing.next().now_or_never(), None);

        // A host that comes back counts on, and says that it does not know.
        drop(host);
        fixture.restart().await;
        let mut after = fixture.host.watch_events(of(EventQuery::default()));
        assert!(after.sequence() > last.sequence);
        assert_eq!(after.next().await, EventNews::Missed(None));
    })
}
