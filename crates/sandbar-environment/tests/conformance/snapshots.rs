//! Snapshots, rollback and forks, where supported; `capabilities` tests the other case.

use sandbar_core::ErrorCode;
use sandbar_environment::{Feature, ForkConfig, SessionId, SnapshotId};
use serde_json::json;

use crate::world::{World, done, read};

fn lacks(world: &World, features: &[Feature]) -> bool {
    world
        .environment
        .capabilities()
        .require_all(features)
        .is_err()
}

pub(crate) async fn rollback_brings_the_files_back_and_drops_later_snapshots(world: &World) {
    if lacks(world, &[Feature::Snapshots, Feature::Rollback]) {
        return;
    }
    let environment = &world.environment;
    world.write("story", "good").await;
    let good = environment.create_snapshot("good").await.unwrap();
    world
        .bash("echo bad > story; echo more > more; sleep 1000 > /dev/null 2>&1 &")
        .await;
    let bad = environment.create_snapshot("bad").await.unwrap();
    assert!(bad.created_at >= good.created_at);
    assert_eq!(environment.list_snapshots().await.unwrap().len(), 2);
    environment.rollback(&good.id).await.unwrap();
    assert_eq!(world.read("story").await.as_deref(), Some("good"));
    assert_eq!(world.listing().await, ["/workspace/story"]);
    let left: Vec<_> = environment
        .list_snapshots()
        .await
        .unwrap()
        .into_iter()
        .map(|snapshot| snapshot.id)
        .collect();
    assert_eq!(left, [good.id]);
    assert_eq!(world.bash("cat story").await, "good");
}

pub(crate) async fn every_turn_gets_a_snapshot_of_its_own(world: &World) {
    if lacks(world, &[Feature::Snapshots]) {
        return;
    }
    let mut turns = Vec::new();
    for turn in 0..3 {
        world.bash(&format!("echo {turn} > turn")).await;
        turns.push(world.environment.turn_complete().await.unwrap().id);
    }
    let listed: Vec<_> = world
        .environment
        .list_snapshots()
        .await
        .unwrap()
        .into_iter()
        .map(|snapshot| snapshot.id)
        .collect();
    assert_eq!(listed, turns);
}

pub(crate) async fn an_unknown_snapshot_is_refused_and_changes_nothing(world: &World) {
    if lacks(world, &[Feature::Snapshots, Feature::Rollback]) {
        return;
    }
    world.write("story", "good").await;
    world.environment.create_snapshot("known").await.unwrap();
    world.write("story", "better").await;
    let error = world
        .environment
        .rollback(&SnapshotId::new("unknown"))
        .await
        .unwrap_err();
    assert_eq!(
        error.cause().map(sandbar_core::Error::code),
        Some(ErrorCode::SnapshotNotFound)
    );
    assert_eq!(world.read("story").await.as_deref(), Some("better"));
    let error = world
        .environment
        .create_snapshot("known")
        .await
        .unwrap_err();
    assert_eq!(
        error.cause().map(sandbar_core::Error::code),
        Some(ErrorCode::SnapshotExists)
    );
}

pub(crate) async fn fork_is_independent_of_its_source(world: &World) {
    if lacks(world, &[Feature::Snapshots, Feature::Fork]) {
        return;
    }
    world.write("story", "beginning").await;
    let snapshot = world
        .environment
        .create_snapshot("beginning")
        .await
        .unwrap();
    world.write("story", "middle").await;
    let id = SessionId::new("branch").unwrap();
    let config = ForkConfig {
        session_id: Some(id.clone()),
        from: Some(snapshot.id),
        labels: [("kind".into(), "try".into())].into(),
    };
    let branch = world.environment.fork(config).await.unwrap();
    assert_eq!(branch.session_id(), &id);
    assert_eq!(read(&*branch, "story").await.as_deref(), Some("beginning"));
    done(&*branch, "bash", json!({"cmd": "echo other end > story"})).await;
    assert_eq!(world.read("story").await.as_deref(), Some("middle"));
    let now = world.environment.fork(ForkConfig::default()).await.unwrap();
    assert_eq!(read(&*now, "story").await.as_deref(), Some("middle"));
    for copy in [branch, now] {
        copy.destroy().await.unwrap();
    }
    assert_eq!(world.bash("cat story").await, "middle");
}
