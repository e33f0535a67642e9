//! Dropped futures.

use std::{path::Path, time::Duration};

use futures::{StreamExt as _, stream};
use sandbar_environment::WriteOptions;
use serde_json::json;

use crate::world::{World, call, eventually, request};

/// Command that holds a lock until all its processes have ended, and prints when it has it.
pub(crate) const HOLD_A_LOCK: &str = "exec 9> lock; flock 9; touch held; sleep 1000 & sleep 1000";

/// Succeeds as soon as the lock is free.
pub(crate) const TAKE_THE_LOCK: &str = "flock -w 30 lock echo free";

pub(crate) async fn dropped_tool_call_ends_its_processes(world: &World) {
    let request = request("bash", json!({"cmd": HOLD_A_LOCK}));
    tokio::select! {
        answer = call(&*world.environment, request) => panic!("it ended by itself: {answer:?}"),
        () = world.appears("held") => {}
    }
    assert_eq!(world.bash(TAKE_THE_LOCK).await, "free\n");
}

pub(crate) async fn dropped_search_ends_and_the_environment_works(world: &World) {
    world
        .bash("for i in $(seq 200); do mkdir -p d$i; seq 2000 > d$i/numbers; done")
        .await;
    for _ in 0..5 {
        let request = request("grep", json!({"pattern": "^1999$", "max_results": 1000}));
        // Dropped right after its start.
        let _ = tokio::time::timeout(Duration::from_millis(1), call(&*world.environment, request))
            .await;
    }
    assert!(
        world
            .done("grep", json!({"pattern": "^1999$", "path": "d7"}))
            .await
            .contains("numbers:1999:1999")
    );
}

pub(crate) async fn dropped_write_leaves_no_file(world: &World) {
    let piece = || stream::iter([Ok("half of it".into())]);
    let endless = piece().chain(stream::pending()).boxed();
    let writing =
        world
            .environment
            .write_file(Path::new("never"), WriteOptions::default(), endless);
    tokio::select! {
        outcome = writing => panic!("it ended by itself: {outcome:?}"),
        () = eventually("the draft is there", async || !world.listing().await.is_empty()) => {}
    }
    eventually("the draft is gone", async || {
        world.listing().await.is_empty()
    })
    .await;
}
