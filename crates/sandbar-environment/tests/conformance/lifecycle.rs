//! Lifecycle from create to destroy.

use std::path::Path;

use sandbar_core::ErrorCode;
use sandbar_environment::{
    EnvironmentError, EnvironmentState, Feature, ForkConfig, SessionId, SnapshotId,
};
use serde_json::json;

use crate::world::{World, config, done, eventually, not_active, write};

pub(crate) async fn environment_is_created_attached_and_destroyed(world: &World) {
    let environment = &world.environment;
    assert_eq!(environment.session_id().as_str(), "first");
    assert_eq!(environment.state().await.unwrap(), EnvironmentState::Active);
    world.write("note", "from the first handle").await;
    let second = world
        .provider
        .attach(environment.session_id())
        .await
        .unwrap();
    assert_eq!(
        done(&*second, "bash", json!({"cmd": "cat note"})).await,
        "from the first handle"
    );
    assert_eq!(second.capabilities(), environment.capabilities());
    second.destroy().await.unwrap();
    assert_eq!(
        environment.state().await.unwrap(),
        EnvironmentState::Destroyed
    );
    not_active(
        world.tool("bash", json!({"cmd": "true"})).await,
        &[EnvironmentState::Destroyed],
    );
}

pub(crate) async fn an_unknown_session_is_not_found(world: &World) {
    let unknown = SessionId::new("unknown").unwrap();
    match world.provider.attach(&unknown).await {
        Err(EnvironmentError::SessionNotFound { session }) => assert_eq!(session, unknown),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_session_id_is_taken_once_and_free_after_destroy(world: &World) {
    let error = world.provider.create(config("first")).await.unwrap_err();
    assert_eq!(
        error.cause().map(sandbar_core::Error::code),
        Some(ErrorCode::SessionExists)
    );
    world.environment.destroy().await.unwrap();
    let again = world.provider.create(config("first")).await.unwrap();
    assert_eq!(again.state().await.unwrap(), EnvironmentState::Active);
    // The older handle belongs to the destroyed session and does not affect its successor.
    world.environment.destroy().await.unwrap();
    assert_eq!(
        world.environment.state().await.unwrap(),
        EnvironmentState::Destroyed
    );
    assert_eq!(again.state().await.unwrap(), EnvironmentState::Active);
    again.destroy().await.unwrap();
}

pub(crate) async fn after_destroy_calls_are_refused_and_destroy_succeeds(world: &World) {
    let other = world
        .provider
        .attach(world.environment.session_id())
        .await
        .unwrap();
    world.bash("echo hello > note").await;
    world.environment.destroy().await.unwrap();
    for environment in [&world.environment, &other] {
        let gone = &[EnvironmentState::Destroyed];
        let capabilities = environment.capabilities();
        let note = Path::new("note");
        for (tool, params) in [
            ("bash", json!({"cmd": "true"})),
            ("read_file", json!({"path": "note"})),
        ] {
            let request = crate::world::request(tool, params);
            not_active(crate::world::call(&**environment, request).await, gone);
        }
        not_active(environment.read_file(note).await, gone);
        not_active(
            environment.list_files(Path::new("."), 1).await.map(drop),
            gone,
        );
        not_active(write(&**environment, "other", "x").await, gone);
        if capabilities.has(Feature::Pause) {
            not_active(environment.pause().await, gone);
            not_active(environment.resume().await, gone);
        }
        if capabilities.has(Feature::Snapshots) {
            not_active(environment.create_snapshot("late").await, gone);
            not_active(environment.turn_complete().await, gone);
            not_active(environment.list_snapshots().await, gone);
        }
        if capabilities.has(Feature::Rollback) {
            not_active(environment.rollback(&SnapshotId::new("late")).await, gone);
        }
        if capabilities.has(Feature::Fork) {
            not_active(environment.fork(ForkConfig::default()).await, gone);
        }
        assert_eq!(
            environment.state().await.unwrap(),
            EnvironmentState::Destroyed
        );
        environment.destroy().await.unwrap();
        environment.destroy().await.unwrap();
    }
}

pub(crate) async fn a_paused_environment_runs_no_tools_until_it_is_resumed(world: &World) {
    let environment = &world.environment;
    if !environment.capabilities().has(Feature::Pause) {
        return;
    }
    world.bash("echo before > note").await;
    environment.pause().await.unwrap();
    environment.pause().await.unwrap();
    let paused = &[EnvironmentState::Paused];
    not_active(
        world
            .tool("bash", json!({"cmd": "echo meanwhile > note"}))
            .await,
        paused,
    );
    not_active(
        world
            .tool("write_file", json!({"path": "note", "content": "x"}))
            .await,
        paused,
    );
    not_active(write(&**environment, "note", "x").await, paused);
    environment.resume().await.unwrap();
    environment.resume().await.unwrap();
    assert_eq!(world.bash("cat note").await, "before\n");
}

pub(crate) async fn paused_command_makes_no_progress_until_resumed(world: &World) {
    let environment = &world.environment;
    if !environment.capabilities().has(Feature::Pause) {
        return;
    }
    let ticking =
        json!({"cmd": "while :; do echo tick >> ticks; sleep 0.01; done", "background": true});
    world.done("bash", ticking).await;
    world.appears("ticks").await;
    environment.pause().await.unwrap();
    let ticks = world.read("ticks").await;
    for _ in 0..20 {
        assert_eq!(world.read("ticks").await, ticks);
    }
    environment.resume().await.unwrap();
    eventually("the clock goes on", async || {
        world.read("ticks").await > ticks
    })
    .await;
}

pub(crate) async fn a_paused_environment_can_be_destroyed(world: &World) {
    let environment = &world.environment;
    if environment.capabilities().has(Feature::Pause) {
        world.bash("sleep 1000 &").await;
        environment.pause().await.unwrap();
    }
    environment.destroy().await.unwrap();
    assert_eq!(
        environment.state().await.unwrap(),
        EnvironmentState::Destroyed
    );
}
