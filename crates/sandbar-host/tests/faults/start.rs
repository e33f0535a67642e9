//! Faults while a host stops and starts: what it cannot do this time it does the next time, and
//! nothing is lost.

use rusqlite::Connection;
use sandbar_core::{Quiesce, RuntimeKind, SessionId, SessionState};
use sandbar_storage::{ForkPoint, VolumeSpec};
use sandbar_testing::Backend;

use crate::{
    fixture::{FaultyHost, snap, with_faults},
    sweep::agreement,
    switchboard::{Fault, Place},
};

/// Stops the host and creates the leftovers of one that was killed during several operations.
fn leave_things_half_done(faulty: &FaultyHost) {
    let storage = sandbar_storage::open(&faulty.config.storage())
        .unwrap()
        .storage;
    let database = Connection::open(faulty.config.data_dir.join("state.db")).unwrap();
    let intend = |what: &'static str| {
        database
            .execute("INSERT INTO intent (what, made) VALUES (?1, 0)", [what])
            .unwrap();
    };
    let id = |id: &str| id.parse::<SessionId>().unwrap();
    let spec = VolumeSpec {
        base: "small".parse().unwrap(),
        quota: None,
    };
    for volume in ["half", "unknown"] {
        if !storage.volumes().unwrap().contains(&id(volume)) {
            storage.create(&id(volume), &spec).unwrap();
        }
    }
    if !storage.volumes().unwrap().contains(&id("half-fork")) {
        storage
            .fork(&id("kept"), &ForkPoint::Now, &id("half-fork"), None)
            .unwrap();
    }
    for snapshot in ["half", "unknown"] {
        if storage
            .snapshots(&id("kept"))
            .unwrap()
            .iter()
            .all(|known| known.name != snap(snapshot))
        {
            storage.snapshot(&id("kept"), &snap(snapshot)).unwrap();
        }
    }
    intend(r#"{"do": "create", "sessions": ["half", "not-even-begun"]}"#);
    intend(r#"{"do": "create", "sessions": ["half-fork"]}"#);
    intend(r#"{"do": "snapshot", "session": "kept", "name": "half"}"#);
    intend(r#"{"do": "rollback", "session": "kept", "name": "one", "keep_later": false}"#);
    intend(r#"{"do": "delete-snapshot", "session": "kept", "name": "gone"}"#);
    intend(r#"{"do": "destroy", "session": "gone"}"#);
    storage.close().unwrap();
}

async fn check(faulty: &FaultyHost, what: &str) {
    agreement(faulty)
        .await
        .unwrap_or_else(|complaint| panic!("{what}: {complaint}"));
    for (id, content) in [("kept", "one"), ("neighbour", "quiet")] {
        let id: SessionId = id.parse().unwrap();
        assert_eq!(
            faulty.host().get_session(&id).await.unwrap().state,
            SessionState::Active,
            "{what}"
        );
        assert_eq!(faulty.read(&id).await, Ok(Some(content.into())), "{what}");
        assert_eq!(faulty.snapshot_names(&id).await, ["one"], "{what}");
        faulty.shell(&id, "true").await.unwrap();
    }
}

#[test]
fn start_with_a_fault_succeeds_or_the_next_one_does() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        for (name, content) in [("kept", "one"), ("neighbour", "quiet")] {
            let id = faulty.create(name).await;
            faulty.write(&id, content).await.unwrap();
            faulty
                .host()
                .create_snapshot(&id, Some(snap("one")), Quiesce::WhereNeeded)
                .await
                .unwrap();
        }
        faulty.stop().await.unwrap();
        leave_things_half_done(faulty);
        faulty.faults.listen();
        faulty.start().await.unwrap();
        let calls = faulty.faults.calls();
        check(faulty, "undisturbed").await;
        for (position, name) in calls.iter().enumerate() {
            let place: Place = (
                *name,
                calls[..position]
                    .iter()
                    .filter(|earlier| *earlier == name)
                    .count(),
            );
            for fault in [Fault::Before, Fault::After, Fault::Wrong] {
                if fault == Fault::Wrong && *name != "volumes" {
                    continue;
                }
                faulty.stop().await.unwrap();
                leave_things_half_done(faulty);
                faulty.faults.arm(&[(place, fault)]);
                let first = faulty.start().await;
                faulty.faults.listen();
                if first.is_err() {
                    faulty
                        .start()
                        .await
                        .unwrap_or_else(|error| panic!("{place:?} {fault:?}: {}", error.chain()));
                }
                check(faulty, &format!("{place:?} {fault:?}")).await;
            }
        }
    });
}

#[test]
fn stop_with_a_fault_loses_nothing() {
    for (backend, runtime) in [
        (Backend::LocalDiskExt4, RuntimeKind::None),
        (Backend::BtrfsImage, RuntimeKind::Native),
    ] {
        with_faults(backend, runtime, async |faulty| {
            let id = faulty.create("kept").await;
            faulty.write(&id, "one").await.unwrap();
            faulty.shell(&id, "true").await.unwrap();
            for call in ["sandbox stop", "close", "runtime close"] {
                for fault in [Fault::Before, Fault::After] {
                    faulty.faults.arm(&[((call, 0), fault)]);
                    // It says so or it copes; what counts is the next start.
                    let _ = faulty.stop().await;
                    assert_eq!(faulty.faults.fired(), 1, "{call}");
                    faulty.faults.listen();
                    faulty
                        .start()
                        .await
                        .unwrap_or_else(|error| panic!("{call} {fault:?}: {}", error.chain()));
                    agreement(faulty).await.unwrap();
                    assert_eq!(
                        faulty.read(&id).await,
                        Ok(Some("one".into())),
                        "{call} {fault:?}"
                    );
                    faulty.shell(&id, "true").await.unwrap();
                }
            }
        });
    }
}

#[test]
fn failed_session_is_active_once_its_volume_is_back() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        let id = faulty.create("kept").await;
        faulty.write(&id, "one").await.unwrap();
        let gone = [
            (("volumes", 0), Fault::Wrong),
            (("volume_base", 0), Fault::Before),
        ];
        faulty.stop().await.unwrap();
        faulty.faults.arm(&gone);
        faulty.start().await.unwrap();
        assert_eq!(
            faulty.host().get_session(&id).await.unwrap().state,
            SessionState::Failed
        );
        faulty.faults.listen();
        faulty.restart().await;
        assert_eq!(
            faulty.host().get_session(&id).await.unwrap().state,
            SessionState::Active
        );
        assert_eq!(faulty.read(&id).await, Ok(Some("one".into())));
    });
}

#[test]
fn start_boxes_at_once_starts_the_box_with_the_session() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        for at_once in [false, true] {
            faulty.config.start_boxes_at_once = at_once;
            faulty.restart().await;
            faulty.faults.listen();
            faulty
                .create(if at_once { "at-once" } else { "later" })
                .await;
            assert_eq!(
                faulty.faults.calls().contains(&"runtime open_sandbox"),
                at_once
            );
        }
    });
}
