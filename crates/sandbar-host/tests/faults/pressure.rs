//! A pool that fills up, or is not whole.

use sandbar_core::{
    ByteCount, ErrorCode, ForkRequest, HealthStatus, LaterSnapshots, Quiesce, RuntimeKind,
};
use sandbar_storage::{ImportSource, Space};
use sandbar_testing::Backend;

use crate::{
    fixture::{FaultyHost, settled, snap, spec, with_faults},
    switchboard::Fault,
};

/// The storage says from now on that this share of it is taken.
fn taken(faulty: &FaultyHost, percent: u64) {
    let (total, available) = (ByteCount::gib(100), ByteCount::gib(100 - percent));
    *faulty.space.lock().unwrap() = Some(Space {
        total,
        available,
        state: "ONLINE".into(),
        healthy: true,
    });
}

#[test]
fn warning_space_prunes_snapshots_and_allows_everything() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        faulty.config.pressure_snapshots_per_session = 2;
        faulty.restart().await;
        let id = faulty.create("s").await;
        for _ in 0..4 {
            faulty.host().turn_complete(&id).await.unwrap();
        }
        faulty
            .host()
            .create_snapshot(&id, Some(snap("mine")), Quiesce::WhereNeeded)
            .await
            .unwrap();
        assert_eq!(faulty.host().health().await.status, HealthStatus::Healthy);
        assert_eq!(faulty.snapshot_names(&id).await.len(), 5);
        taken(faulty, 90);
        let health = faulty.host().health().await;
        assert_eq!(health.status, HealthStatus::Degraded);
        assert!(health.reasons[0].contains("90%"), "{:?}", health.reasons);
        settled(async || match faulty.snapshot_names(&id).await {
            names if names == ["turn-0004", "mine"] => Ok(()),
            names => Err(format!("it was not pruned to two: {names:?}")),
        })
        .await;
        let other = faulty.create("other").await;
        faulty.shell(&other, "true").await.unwrap();
    });
}

#[test]
fn critical_space_refuses_creates_and_allows_deletes() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        let id = faulty.create("s").await;
        for name in ["one", "two", "three"] {
            faulty.write(&id, name).await.unwrap();
            faulty
                .host()
                .create_snapshot(&id, Some(snap(name)), Quiesce::WhereNeeded)
                .await
                .unwrap();
        }
        taken(faulty, 97);
        let health = faulty.host().health().await;
        assert_eq!(health.status, HealthStatus::Unhealthy);
        assert!(
            health.reasons[0].contains("no new sessions"),
            "{:?}",
            health.reasons
        );
        let source = ImportSource::Directory(faulty.fixture.scratch().to_owned());
        let refused = [
            faulty.host().create_session(spec("new")).await.err(),
            faulty
                .host()
                .fork_session(&id, ForkRequest::default())
                .await
                .err(),
            faulty
                .host()
                .import_base(&"new".parse().unwrap(), &source, |_| {})
                .await
                .err(),
        ];
        for error in refused {
            let error = error.unwrap();
            assert_eq!(error.code(), ErrorCode::StorageFull, "{}", error.chain());
            assert!(error.hint().is_some());
        }
        faulty.host().get_session(&id).await.unwrap();
        faulty.shell(&id, "true").await.unwrap();
        faulty
            .host()
            .delete_snapshot(&id, &snap("three"))
            .await
            .unwrap();
        faulty
            .host()
            .rollback_session(&id, &snap("one"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(faulty.read(&id).await, Ok(Some("one".into())));
        faulty.host().destroy_session(&id).await.unwrap();
        assert!(faulty.real().volumes().unwrap().is_empty());
        taken(faulty, 50);
        assert_eq!(faulty.host().health().await.status, HealthStatus::Healthy);
        faulty.create("new").await;
    });
}

#[test]
fn degraded_or_unavailable_pool_is_unhealthy() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        for state in ["DEGRADED", "FAULTED", "SUSPENDED", "read-only"] {
            let (total, available) = (ByteCount::gib(100), ByteCount::gib(99));
            *faulty.space.lock().unwrap() = Some(Space {
                total,
                available,
                state: state.into(),
                healthy: false,
            });
            let health = faulty.host().health().await;
            assert_eq!(
                (health.status, health.pool_state.as_str()),
                (HealthStatus::Unhealthy, state)
            );
            assert!(
                health.reasons.iter().any(|reason| reason.contains(state)),
                "{:?}",
                health.reasons
            );
        }
        *faulty.space.lock().unwrap() = None;
        // The janitor asks, too; more faults than it can take meanwhile.
        let faults: Vec<_> = (0..1000)
            .map(|earlier| (("space", earlier), Fault::Before))
            .collect();
        faulty.faults.arm(&faults);
        let health = faulty.host().health().await;
        assert_eq!(health.status, HealthStatus::Unhealthy);
        assert!(
            health.reasons[0].contains("is not available"),
            "{:?}",
            health.reasons
        );
        faulty.faults.listen();
        assert_eq!(faulty.host().health().await.status, HealthStatus::Healthy);
    });
}
