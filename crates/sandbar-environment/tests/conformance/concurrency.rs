//! Concurrent callers.

use std::sync::Arc;

use futures::future::join_all;
use sandbar_environment::{EnvironmentError, EnvironmentState, Feature};
use serde_json::json;

use crate::world::{World, call, not_active, request};

pub(crate) async fn tools_overlap_with_tools(world: &World) {
    // Each call ends only when all of them run.
    let meet = "touch here-$$; while [ $(ls here-* | wc -l) -lt 4 ]; do sleep 0.01; done; echo met";
    let answers = join_all((0..4).map(|_| world.bash(meet))).await;
    assert_eq!(answers, vec!["met\n"; 4]);
    let files = join_all((0..16).map(|number| {
        world.done(
            "write_file",
            json!({"path": format!("file-{number}"), "content": "x"}),
        )
    }));
    files.await;
    assert_eq!(
        world
            .listing()
            .await
            .iter()
            .filter(|path| path.contains("/file-"))
            .count(),
        16
    );
}

pub(crate) async fn tools_overlap_with_pause(world: &World) {
    let environment = &world.environment;
    if !environment.capabilities().has(Feature::Pause) {
        return;
    }
    for _ in 0..3 {
        let tools: Vec<_> = (0..8)
            .map(|_| {
                let environment = Arc::clone(environment);
                tokio::spawn(async move {
                    call(&*environment, request("bash", json!({"cmd": "echo done"}))).await
                })
            })
            .collect();
        environment.pause().await.unwrap();
        // Each came before the pause and is done, or after it and was refused.
        for tool in tools {
            match tool.await.unwrap() {
                Ok(answer) => assert_eq!(answer.content, "done\n"),
                refused => not_active(refused, &[EnvironmentState::Paused]),
            }
        }
        assert_eq!(environment.state().await.unwrap(), EnvironmentState::Paused);
        environment.resume().await.unwrap();
        assert_eq!(world.bash("echo again").await, "again\n");
    }
}

pub(crate) async fn pause_and_resume_are_serialised(world: &World) {
    let environment = &world.environment;
    if !environment.capabilities().has(Feature::Pause) {
        return;
    }
    world.bash("sleep 1000 > /dev/null 2>&1 &").await;
    let second = world
        .provider
        .attach(environment.session_id())
        .await
        .unwrap();
    let callers: Vec<_> = (0..16)
        .map(|number| {
            let environment = Arc::clone(if number % 4 < 2 { environment } else { &second });
            tokio::spawn(async move {
                if number % 2 == 0 {
                    environment.pause().await
                } else {
                    environment.resume().await
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    environment.resume().await.unwrap();
    assert_eq!(environment.state().await.unwrap(), EnvironmentState::Active);
    assert_eq!(world.bash("echo alive").await, "alive\n");
}

pub(crate) async fn running_tools_end_with_their_environment(world: &World) {
    let environment = Arc::clone(&world.environment);
    let running = tokio::spawn(async move {
        call(
            &*environment,
            request("bash", json!({"cmd": "touch started; sleep 1000"})),
        )
        .await
    });
    world.appears("started").await;
    world.environment.destroy().await.unwrap();
    not_active(
        running.await.unwrap(),
        &[EnvironmentState::Destroying, EnvironmentState::Destroyed],
    );
}

pub(crate) async fn concurrent_destroys_succeed(world: &World) {
    world.bash("sleep 1000 > /dev/null 2>&1 &").await;
    let second = world
        .provider
        .attach(world.environment.session_id())
        .await
        .unwrap();
    let callers = (0..6).map(|number| {
        let environment = if number % 2 == 0 {
            &world.environment
        } else {
            &second
        };
        environment.destroy()
    });
    for outcome in join_all(callers).await {
        outcome.unwrap();
    }
    assert_eq!(
        world.environment.state().await.unwrap(),
        EnvironmentState::Destroyed
    );
    let found = world.provider.attach(world.environment.session_id()).await;
    assert!(
        matches!(found, Err(EnvironmentError::SessionNotFound { .. })),
        "{found:?}"
    );
}
