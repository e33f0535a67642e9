//! Single faults that once had an effect they must not have.

use std::time::Duration;

use sandbar_core::{
    ErrorCode, LaterSnapshots, PageRequest, Quiesce, RuntimeKind, SessionFilter, SessionId,
    SessionState,
};
use sandbar_testing::Backend;

use crate::{
    fixture::{FaultyHost, settled, snap, spec, with_faults},
    sweep::agreement,
    switchboard::Fault,
};

fn quick(case: impl AsyncFnOnce(&mut FaultyHost)) {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, case);
}

/// A session on a host whose janitor has just been by and does not come again.
async fn after_the_janitor(faulty: &mut FaultyHost) -> SessionId {
    faulty.config.health_check_interval = Duration::from_hours(1);
    faulty.stop().await.unwrap();
    faulty.faults.listen();
    faulty.start().await.unwrap();
    // It asks for the space when it tidies up, which is the last thing it does.
    settled(async || {
        let asked = faulty.faults.calls().contains(&"space");
        if asked {
            Ok(())
        } else {
            Err("the janitor has not been by".to_owned())
        }
    })
    .await;
    faulty.create("s").await
}

#[test]
fn snapshot_deleted_despite_an_error_has_no_record() {
    quick(async |faulty| {
        let id = faulty.create("s").await;
        faulty
            .host()
            .create_snapshot(&id, Some(snap("one")), Quiesce::WhereNeeded)
            .await
            .unwrap();
        faulty
            .faults
            .arm(&[(("delete_snapshot", 0), Fault::Before)]);
        faulty
            .host()
            .delete_snapshot(&id, &snap("one"))
            .await
            .unwrap_err();
        assert_eq!(faulty.snapshot_names(&id).await, ["one"]);
        faulty.faults.arm(&[(("delete_snapshot", 0), Fault::After)]);
        faulty
            .host()
            .delete_snapshot(&id, &snap("one"))
            .await
            .unwrap();
        assert!(faulty.snapshot_names(&id).await.is_empty());
    });
}

#[test]
fn session_of_unknown_size_is_created_and_listed() {
    quick(async |faulty| {
        faulty
            .faults
            .arm(&[(("usage", 0), Fault::Before), (("usage", 1), Fault::Before)]);
        faulty.create("s").await;
        let page = faulty
            .host()
            .list_sessions(&SessionFilter::default(), &PageRequest::default())
            .await
            .unwrap();
        assert_eq!((page.items.len(), faulty.faults.fired()), (1, 2));
    });
}

#[test]
fn finished_rollback_is_not_repeated_after_restart() {
    quick(async |faulty| {
        let id = faulty.create("s").await;
        for name in ["one", "two"] {
            faulty.write(&id, name).await.unwrap();
            faulty
                .host()
                .create_snapshot(&id, Some(snap(name)), Quiesce::WhereNeeded)
                .await
                .unwrap();
        }
        faulty.faults.arm(&[(("snapshots", 0), Fault::Before)]);
        faulty
            .host()
            .rollback_session(&id, &snap("one"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(faulty.faults.fired(), 1);
        agreement(faulty).await.unwrap();
        faulty.write(&id, "later").await.unwrap();
        faulty.restart().await;
        assert_eq!(faulty.read(&id).await, Ok(Some("later".into())));
    });
}

#[test]
fn session_deleted_despite_an_error_is_not_failed_later() {
    quick(async |faulty| {
        let id = after_the_janitor(faulty).await;
        faulty.faults.arm(&[(("delete", 0), Fault::After)]);
        faulty.host().destroy_session(&id).await.unwrap_err();
        assert_eq!(
            faulty.host().get_session(&id).await.unwrap().state,
            SessionState::Destroying
        );
        faulty.restart().await;
        assert_eq!(
            faulty.host().get_session(&id).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        faulty.create("s").await;
    });
}

#[test]
fn failed_undo_is_repeated_at_the_next_start() {
    quick(async |faulty| {
        let source = faulty.create("source").await;
        faulty.faults.arm(&[
            (("create", 0), Fault::After),
            (("delete", 0), Fault::Before),
        ]);
        faulty.host().create_session(spec("s")).await.unwrap_err();
        assert_eq!(faulty.faults.fired(), 2);
        faulty.faults.arm(&[
            (("snapshot", 0), Fault::After),
            (("delete_snapshot", 0), Fault::Before),
        ]);
        faulty
            .host()
            .create_snapshot(&source, Some(snap("x")), Quiesce::WhereNeeded)
            .await
            .unwrap_err();
        assert_eq!((faulty.faults.fired(), faulty.intents()), (2, 2));
        faulty.restart().await;
        agreement(faulty).await.unwrap();
        faulty.create("s").await;
        faulty
            .host()
            .create_snapshot(&source, Some(snap("x")), Quiesce::WhereNeeded)
            .await
            .unwrap();
    });
}

#[test]
fn box_that_cannot_be_thawed_is_replaced() {
    with_faults(Backend::BtrfsImage, RuntimeKind::Native, async |faulty| {
        let id = faulty.create("s").await;
        faulty.shell(&id, "true").await.unwrap();
        faulty.faults.arm(&[
            (("sandbox thaw", 0), Fault::Before),
            (("sandbox thaw", 1), Fault::Before),
        ]);
        faulty
            .host()
            .create_snapshot(&id, Some(snap("x")), Quiesce::Always)
            .await
            .unwrap();
        assert_eq!(faulty.faults.fired(), 2);
        faulty.shell(&id, "true").await.unwrap();
    });
}

#[test]
fn unknown_snapshot_is_refused_without_a_storage_call() {
    quick(async |faulty| {
        let id = after_the_janitor(faulty).await;
        faulty.write(&id, "now").await.unwrap();
        faulty.faults.listen();
        let refused = faulty
            .host()
            .rollback_session(&id, &snap("no-such"), LaterSnapshots::Drop)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), ErrorCode::SnapshotNotFound);
        let changing = ["rollback", "unmount", "delete_snapshot", "sandbox stop"];
        assert!(
            faulty
                .faults
                .calls()
                .iter()
                .all(|call| !changing.contains(call)),
            "{:?}",
            faulty.faults.calls()
        );
        assert_eq!(
            faulty.host().get_session(&id).await.unwrap().state,
            SessionState::Active
        );
        assert_eq!(faulty.read(&id).await, Ok(Some("now".into())));
    });
}

#[test]
fn volume_that_cannot_be_deleted_is_freed_later() {
    quick(async |faulty| {
        let id = faulty.create("s").await;
        faulty
            .host()
            .create_snapshot(&id, Some(snap("one")), Quiesce::WhereNeeded)
            .await
            .unwrap();
        for fault in [Fault::Before, Fault::After] {
            faulty.faults.arm(&[(("delete", 0), fault)]);
            assert_eq!(
                faulty.host().hibernate_session(&id).await.unwrap().state,
                SessionState::Hibernated
            );
            sandbar_testing::eventually("the janitor frees it", || {
                faulty.real().volumes().unwrap().is_empty()
            });
            // A failed wake leaves it hibernated.
            for (call, fault) in [
                ("create", Fault::Before),
                ("snapshot", Fault::Before),
                ("snapshot", Fault::After),
            ] {
                faulty.faults.arm(&[((call, 0), fault)]);
                faulty.host().wake_session(&id).await.unwrap_err();
                assert_eq!(
                    faulty.host().get_session(&id).await.unwrap().state,
                    SessionState::Hibernated
                );
                assert!(faulty.real().volumes().unwrap().is_empty(), "{call}");
            }
            assert_eq!(
                faulty.host().wake_session(&id).await.unwrap().state,
                SessionState::Active
            );
            assert_eq!(faulty.snapshot_names(&id).await.len(), 1);
            assert_eq!(faulty.real().snapshots(&id).unwrap().len(), 1);
        }
    });
}
