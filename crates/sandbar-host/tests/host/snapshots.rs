use std::pin::Pin;

use sandbar_core::{ChangeKind, ErrorCode, LaterSnapshots, Quiesce, SessionState, SnapshotKind};
use sandbar_host::HostConfig;

use crate::fixture::{HostFixture, snap};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) fn rollback_restores_files_and_drops_later_snapshots(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.write(&id, "f", "one").await;
        fixture.snapshot(&id, "one").await;
        fixture.write(&id, "f", "two").await;
        fixture.snapshot(&id, "two").await;
        let info = fixture
            .host
            .rollback_session(&id, &snap("one"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(
            (info.id.as_str(), info.state, info.snapshot_count),
            ("s", SessionState::Active, 1)
        );
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("one"));
        assert_eq!(fixture.snapshot_names(&id).await, ["one"]);
    })
}

pub(crate) fn rollback_keeps_later_snapshots_if_requested(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        for step in ["one", "two"] {
            fixture.write(&id, "f", step).await;
            fixture.snapshot(&id, step).await;
        }
        for step in ["one", "two", "one"] {
            fixture
                .host
                .rollback_session(&id, &snap(step), LaterSnapshots::Keep)
                .await
                .unwrap();
            assert_eq!(fixture.read(&id, "f").await.as_deref(), Some(step));
            assert_eq!(fixture.snapshot_names(&id).await, ["one", "two"]);
        }
    })
}

pub(crate) fn rollback_to_an_unknown_snapshot_changes_nothing(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.snapshot(&id, "good").await;
        fixture.write(&id, "f", "now").await;
        let rollback = fixture
            .host
            .rollback_session(&id, &snap("goood"), LaterSnapshots::Drop)
            .await
            .unwrap_err();
        let diff = fixture
            .host
            .diff(&id, &snap("goood"), None)
            .await
            .unwrap_err();
        let delete = fixture
            .host
            .delete_snapshot(&id, &snap("goood"))
            .await
            .unwrap_err();
        for error in [rollback, diff, delete] {
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::SnapshotNotFound, Some("snapshot"))
            );
            assert!(error.hint().unwrap().contains("`good`"));
        }
        assert_eq!(
            fixture.host.get_session(&id).await.unwrap().state,
            SessionState::Active
        );
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("now"));
        assert_eq!(fixture.snapshot_names(&id).await, ["good"]);
    })
}

pub(crate) fn turn_numbers_never_repeat(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.host.turn_complete(&id).await.unwrap();
        fixture.host.turn_complete(&id).await.unwrap();
        fixture
            .host
            .rollback_session(&id, &snap("turn-0001"), LaterSnapshots::Drop)
            .await
            .unwrap();
        fixture.snapshot(&id, "turn-0003").await;
        let next = fixture.host.turn_complete(&id).await.unwrap();
        assert_eq!(
            (next.name.as_str(), next.kind),
            ("turn-0004", SnapshotKind::Turn)
        );
        assert_eq!(fixture.host.get_session(&id).await.unwrap().turn_count, 4);
        fixture.restart().await;
        assert_eq!(
            fixture.host.turn_complete(&id).await.unwrap().name.as_str(),
            "turn-0005"
        );
    })
}

pub(crate) fn concurrent_turns_get_different_numbers(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        let (a, b) = tokio::join!(
            fixture.host.turn_complete(&id),
            fixture.host.turn_complete(&id)
        );
        let mut names = [a.unwrap().name.to_string(), b.unwrap().name.to_string()];
        names.sort();
        assert_eq!(names, ["turn-0001", "turn-0002"]);
    })
}

pub(crate) fn named_snapshot_survives_pruning(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        fixture
            .restart_with(HostConfig {
                max_snapshots_per_session: 3,
                ..fixture.config.clone()
            })
            .await;
        let id = fixture.session("s").await;
        fixture.write(&id, "f", "named").await;
        fixture.snapshot(&id, "named").await;
        for _ in 0..5 {
            fixture.host.turn_complete(&id).await.unwrap();
        }
        assert_eq!(
            fixture.snapshot_names(&id).await,
            ["named", "turn-0004", "turn-0005"]
        );
        fixture.write(&id, "f", "changed").await;
        fixture
            .host
            .rollback_session(&id, &snap("named"), LaterSnapshots::Keep)
            .await
            .unwrap();
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("named"));
    })
}

pub(crate) fn parents_of_snapshots_form_a_tree(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        for name in ["root", "left", "leaf"] {
            fixture.snapshot(&id, name).await;
        }
        fixture
            .host
            .rollback_session(&id, &snap("root"), LaterSnapshots::Keep)
            .await
            .unwrap();
        fixture.snapshot(&id, "right").await;
        fixture
            .host
            .delete_snapshot(&id, &snap("left"))
            .await
            .unwrap();
        let lineage: Vec<(String, Option<String>)> = fixture
            .host
            .list_snapshots(&id)
            .await
            .unwrap()
            .into_iter()
            .map(|snapshot| (snapshot.name.to_string(), snapshot.parent.map(String::from)))
            .collect();
        let root = || Some("root".to_owned());
        assert_eq!(
            lineage,
            [
                ("root".into(), None),
                ("leaf".into(), root()),
                ("right".into(), root())
            ]
        );
    })
}

pub(crate) fn diff_lists_what_a_command_changed(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture
            .shell(&id, "echo 1 > kept; echo 1 > changed; echo 1 > gone")
            .await;
        fixture.snapshot(&id, "before").await;
        fixture
            .shell(
                &id,
                "echo 2 > changed; rm gone; mkdir new; echo 1 > new/file; touch kept",
            )
            .await;
        fixture.snapshot(&id, "after").await;
        let changes = fixture
            .host
            .diff(&id, &snap("before"), Some(&snap("after")))
            .await
            .unwrap();
        let told: Vec<(&str, ChangeKind)> = changes
            .iter()
            .map(|change| (change.path.to_str().unwrap(), change.kind))
            .collect();
        let expected = [
            ("/workspace/changed", ChangeKind::Modified),
            ("/workspace/gone", ChangeKind::Deleted),
            ("/workspace/new", ChangeKind::Added),
            ("/workspace/new/file", ChangeKind::Added),
        ];
        assert_eq!(told, expected);
        assert_eq!(
            fixture.host.diff(&id, &snap("before"), None).await.unwrap(),
            changes
        );
    })
}

pub(crate) fn named_snapshots_of_a_session_are_limited(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        fixture
            .restart_with(HostConfig {
                max_named_snapshots_per_session: 2,
                ..fixture.config.clone()
            })
            .await;
        let id = fixture.session("s").await;
        fixture.snapshot(&id, "a").await;
        fixture.host.turn_complete(&id).await.unwrap();
        fixture.snapshot(&id, "b").await;
        let refused = fixture
            .host
            .create_snapshot(&id, Some(snap("c")), Quiesce::WhereNeeded)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidState);
        assert!(
            refused
                .hint()
                .is_some_and(|hint| hint.contains("max_named_snapshots_per_session"))
        );
        // Turns go on, and a deleted snapshot makes room.
        fixture.host.turn_complete(&id).await.unwrap();
        fixture.host.delete_snapshot(&id, &snap("a")).await.unwrap();
        fixture.snapshot(&id, "c").await;
    })
}
