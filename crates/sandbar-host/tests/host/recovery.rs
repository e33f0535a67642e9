use std::pin::Pin;

use rusqlite::Connection;
use sandbar_core::{ErrorCode, LaterSnapshots, Quiesce, SessionState};
use sandbar_storage::{ForkPoint, VolumeSpec};

use crate::fixture::{HostFixture, snap};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Stops the host, lets `change` act on its storage and state as a host that was killed would have
/// left them, and starts it again.
pub(crate) async fn meanwhile(
    fixture: &mut HostFixture,
    change: impl FnOnce(&dyn sandbar_storage::Storage, &Connection),
) {
    fixture.host.shutdown().await.unwrap();
    {
        let storage = sandbar_storage::open(&fixture.config.storage())
            .unwrap()
            .storage;
        let database = Connection::open(fixture.config.data_dir.join("state.db")).unwrap();
        change(&*storage, &database);
        storage.close().unwrap();
    }
    fixture.restart().await;
}

pub(crate) fn intend(database: &Connection, what: &'static str) {
    database
        .execute("INSERT INTO intent (what, made) VALUES (?1, 0)", [what])
        .unwrap();
}

pub(crate) fn restarted_host_has_its_sessions(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.write(&id, "f", "one").await;
        fixture.snapshot(&id, "one").await;
        fixture.write(&id, "f", "two").await;
        fixture.host.turn_complete(&id).await.unwrap();
        let before = fixture.host.get_session(&id).await.unwrap();
        let snapshots = fixture.host.list_snapshots(&id).await.unwrap();
        for _ in 0..2 {
            fixture.restart().await;
            let after = fixture.host.get_session(&id).await.unwrap();
            let unsized_info = |mut info: sandbar_core::SessionInfo| {
                info.space_used = sandbar_core::ByteCount(0);
                info
            };
            assert_eq!(unsized_info(after), unsized_info(before.clone()));
            assert_eq!(fixture.host.list_snapshots(&id).await.unwrap(), snapshots);
            assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("two"));
        }
        fixture
            .host
            .rollback_session(&id, &snap("one"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("one"));
    })
}

pub(crate) fn unfinished_creates_are_undone_at_start(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("kept").await;
        fixture.snapshot(&id, "kept").await;
        meanwhile(fixture, |storage, database| {
            let spec = VolumeSpec {
                base: "small".parse().unwrap(),
                quota: None,
            };
            storage.create(&"half".parse().unwrap(), &spec).unwrap();
            intend(
                database,
                r#"{"do": "create", "sessions": ["half", "not-even-begun"]}"#,
            );
            storage.create(&"unknown".parse().unwrap(), &spec).unwrap();
            storage
                .fork(
                    &"kept".parse().unwrap(),
                    &ForkPoint::Now,
                    &"half-fork".parse().unwrap(),
                    None,
                )
                .unwrap();
            intend(database, r#"{"do": "create", "sessions": ["half-fork"]}"#);
            storage
                .snapshot(&"kept".parse().unwrap(), &snap("half"))
                .unwrap();
            intend(
                database,
                r#"{"do": "snapshot", "session": "kept", "name": "half"}"#,
            );
            storage
                .snapshot(&"kept".parse().unwrap(), &snap("unknown"))
                .unwrap();
        })
        .await;
        assert_eq!(fixture.snapshot_names(&id).await, ["kept"]);
        for name in ["half", "unknown", "half-fork", "not-even-begun"] {
            fixture.session(name).await;
            assert_eq!(fixture.read(&name.parse().unwrap(), "f").await, None);
        }
        fixture.snapshot(&id, "half").await;
        fixture.snapshot(&id, "unknown").await;
    })
}

pub(crate) fn unfinished_deletions_are_finished_at_start(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.write(&id, "f", "one").await;
        for name in ["one", "two", "three"] {
            fixture.snapshot(&id, name).await;
        }
        fixture.write(&id, "f", "now").await;
        fixture.session("doomed").await;
        meanwhile(fixture, |storage, database| {
            intend(database, r#"{"do": "destroy", "session": "doomed"}"#);
            storage
                .delete_snapshot(&"s".parse().unwrap(), &snap("three"))
                .unwrap();
            intend(
                database,
                r#"{"do": "delete-snapshot", "session": "s", "name": "three"}"#,
            );
            intend(
                database,
                r#"{"do": "rollback", "session": "s", "name": "one", "keep_later": true}"#,
            );
        })
        .await;
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("one"));
        assert_eq!(fixture.snapshot_names(&id).await, ["one", "two"]);
        let doomed = fixture
            .host
            .get_session(&"doomed".parse().unwrap())
            .await
            .unwrap_err();
        assert_eq!(doomed.code(), ErrorCode::SessionNotFound);
        meanwhile(fixture, |_, database| {
            intend(
                database,
                r#"{"do": "rollback", "session": "s", "name": "one", "keep_later": false}"#,
            );
            intend(database, r#"{"do": "destroy", "session": "long-gone"}"#);
            intend(
                database,
                r#"{"do": "rollback", "session": "long-gone", "name": "x", "keep_later": false}"#,
            );
        })
        .await;
        assert_eq!(fixture.snapshot_names(&id).await, ["one"]);
    })
}

pub(crate) fn session_without_its_volume_is_failed_and_can_be_destroyed(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        meanwhile(fixture, |storage, _| {
            storage.delete(&"s".parse().unwrap()).unwrap();
        })
        .await;
        assert_eq!(
            fixture.host.get_session(&id).await.unwrap().state,
            SessionState::Failed
        );
        let error = fixture
            .host
            .create_snapshot(&id, None, Quiesce::WhereNeeded)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        fixture.host.destroy_session(&id).await.unwrap();
        fixture.session("s").await;
    })
}
