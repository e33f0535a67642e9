//! Declared capabilities against actual behaviour.

use sandbar_environment::{
    EnvironmentError, EnvironmentState, Feature, ForkConfig, Result, SessionId, SnapshotId,
};

use crate::world::{World, config};

#[track_caller]
fn refused<T>(outcome: Result<T>, expected: Feature) {
    match outcome {
        Err(EnvironmentError::CapabilityNotSupported { feature, reason })
            if feature == expected =>
        {
            assert!(!reason.is_empty());
        }
        Err(other) => panic!("{expected}: {other:?}"),
        Ok(_) => panic!("{expected} is not there, and was done"),
    }
}

pub(crate) async fn supported_features_work_and_missing_ones_are_refused(world: &World) {
    let environment = &world.environment;
    let capabilities = environment.capabilities().clone();
    assert_eq!(world.provider.capabilities().await.unwrap(), capabilities);
    assert!(!capabilities.isolation.is_empty());
    world.write("kept", "kept").await;
    if capabilities.has(Feature::Snapshots) {
        let snapshot = environment.create_snapshot("one").await.unwrap();
        assert_eq!(snapshot.name, "one");
        assert_eq!(environment.list_snapshots().await.unwrap(), [snapshot]);
        environment.turn_complete().await.unwrap();
    } else {
        refused(environment.create_snapshot("one").await, Feature::Snapshots);
        refused(environment.turn_complete().await, Feature::Snapshots);
        refused(environment.list_snapshots().await, Feature::Snapshots);
    }
    let snapshot = SnapshotId::new("one");
    if capabilities.has(Feature::Rollback) {
        environment.rollback(&snapshot).await.unwrap();
    } else {
        refused(environment.rollback(&snapshot).await, Feature::Rollback);
    }
    if capabilities.has(Feature::Pause) {
        environment.pause().await.unwrap();
        assert_eq!(environment.state().await.unwrap(), EnvironmentState::Paused);
        environment.resume().await.unwrap();
    } else {
        refused(environment.pause().await, Feature::Pause);
        refused(environment.resume().await, Feature::Pause);
    }
    if capabilities.has(Feature::Fork) {
        environment
            .fork(ForkConfig::default())
            .await
            .unwrap()
            .destroy()
            .await
            .unwrap();
    } else {
        let id = SessionId::new("copy").unwrap();
        let config = ForkConfig {
            session_id: Some(id.clone()),
            ..ForkConfig::default()
        };
        refused(environment.fork(config).await, Feature::Fork);
        world.provider.attach(&id).await.unwrap_err();
    }
    assert_eq!(environment.state().await.unwrap(), EnvironmentState::Active);
    assert_eq!(world.listing().await, ["/workspace/kept"]);
}

pub(crate) async fn required_features_that_are_missing_prevent_creation(world: &World) {
    world.environment.destroy().await.unwrap();
    let capabilities = world.provider.capabilities().await.unwrap();
    let (there, missing): (Vec<_>, Vec<_>) = Feature::ALL
        .into_iter()
        .partition(|feature| capabilities.has(*feature));
    let demanding = config("demanding").require(there);
    let environment = world.provider.create(demanding.clone()).await.unwrap();
    environment.destroy().await.unwrap();
    for feature in missing {
        refused(
            world
                .provider
                .create(demanding.clone().require([feature]))
                .await,
            feature,
        );
        let outcome = world.provider.attach(&demanding.session_id).await;
        assert!(
            matches!(outcome, Err(EnvironmentError::SessionNotFound { .. })),
            "{outcome:?}"
        );
    }
}
