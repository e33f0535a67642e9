//! Watches of sessions and directories over the wire.

use sandbar_core::{
    DirChange, DirChangeKind, DirNews, ErrorCode, EventKind, EventNews, EventQuery, Labels,
    SessionState, WriteOptions,
};
use serde_json::json;

use crate::world::{PROTOCOLS, World};

#[test]
fn event_watch_filters_over_every_protocol() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let mut all = client.watch_events(EventQuery::default()).await.unwrap();
            let id = world.session(&client).await.id;
            let mut paused = client
                .watch_events(EventQuery {
                    session: Some(id.clone()),
                    kinds: vec![EventKind::StateChanged],
                    ..EventQuery::default()
                })
                .await
                .unwrap();
            let labels: Labels = [("no".to_owned(), "session".to_owned())].into();
            let nothing = client
                .watch_events(EventQuery {
                    labels,
                    ..EventQuery::default()
                })
                .await
                .unwrap();
            client.hibernate_session(&id).await.unwrap();
            client.destroy_session(&id).await.unwrap();
            let mut kinds = Vec::new();
            while kinds.last() != Some(&EventKind::SessionDestroyed) {
                let Some(EventNews::Happened(event)) = all.next().await.unwrap() else {
                    panic!("no event")
                };
                assert!(
                    event.session == id && event.actor.as_str().starts_with("token:"),
                    "{event:?}"
                );
                kinds.push(event.kind);
            }
            assert_eq!(
                kinds,
                [
                    EventKind::SessionCreated,
                    EventKind::StateChanged,
                    EventKind::SessionDestroyed
                ]
            );
            let Some(EventNews::Happened(event)) = paused.next().await.unwrap() else {
                panic!("no event")
            };
            assert_eq!(event.state, Some(SessionState::Hibernated));
            assert_eq!(nothing.sequence, paused.sequence);
            let since = EventQuery {
                since: Some(all.sequence),
                ..EventQuery::default()
            };
            let mut again = client.watch_events(since).await.unwrap();
            let Some(EventNews::Happened(first)) = again.next().await.unwrap() else {
                panic!("no event")
            };
            assert_eq!(
                (first.sequence, first.kind),
                (all.sequence + 1, EventKind::SessionCreated)
            );
        }
        let refused = world
            .stream(
                "WatchEvents",
                &[json!({"kinds": ["EVENT_KIND_UNSPECIFIED"]})],
            )
            .await;
        assert_eq!(
            refused.last().unwrap()["error"]["details"][0]["debug"]["field"],
            "kinds",
            "{refused:?}"
        );
    });
}

#[test]
fn dir_watch_works_over_every_protocol_until_session_end() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let id = world.session(&client).await.id;
            let mut watch = client
                .watch_dir(&id, "/workspace".as_ref(), true)
                .await
                .unwrap();
            let options = WriteOptions {
                create_dirs: true,
                ..WriteOptions::default()
            };
            client
                .write_file(&id, "a/first".as_ref(), options, &b"x"[..])
                .await
                .unwrap();
            let created = |path: &str| {
                DirNews::Changed(DirChange {
                    kind: DirChangeKind::Created,
                    path: path.into(),
                    is_dir: true,
                })
            };
            assert_eq!(watch.next().await.unwrap(), Some(created("/workspace/a")));
            // From here on the new directory is watched, so each step of writing a file in it is an
            // event.
            client
                .write_file(&id, "a/b".as_ref(), options, &b"x"[..])
                .await
                .unwrap();
            loop {
                match watch.next().await.unwrap() {
                    Some(DirNews::Changed(DirChange {
                        kind: DirChangeKind::Renamed { .. },
                        path,
                        is_dir,
                    })) if path.ends_with("b") => {
                        assert_eq!((path.to_str(), is_dir), (Some("/workspace/a/b"), false));
                        break;
                    }
                    Some(DirNews::Changed(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
            client.destroy_session(&id).await.unwrap();
            let end = loop {
                match watch.next().await {
                    Ok(Some(DirNews::Changed(_))) => {}
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => break error,
                }
            };
            assert_eq!(end.code(), ErrorCode::SessionNotFound);
            let error = client
                .watch_dir(&id, "/workspace".as_ref(), false)
                .await
                .unwrap_err();
            assert_eq!(error.code(), ErrorCode::SessionNotFound);
        }
    });
}
