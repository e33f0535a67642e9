//! Connecting to sandboxes.

use serde_json::json;

use super::{assert_refused, moment};
use crate::{client::Sandbox, world::World};

#[test]
fn connect_to_a_running_sandbox_returns_the_same_tokens() {
    World::run(async |world| {
        let made = world
            .post("/v2/sandboxes", json!({ "templateID": "base" }))
            .await
            .json();
        let sandbox = Sandbox::of(world.address, &made);
        for path in ["/sandboxes", "/v2/sandboxes"] {
            let answer = world
                .post(
                    &format!("{path}/{}/connect", sandbox.id),
                    json!({ "timeout": 60 }),
                )
                .await;
            assert_eq!((answer.status.as_u16(), answer.json()), (200, made.clone()));
        }
    });
}

#[test]
fn connect_extends_and_never_shortens_the_lifetime() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 100 }))
            .await;
        let end = async || moment(&world.info(&sandbox).await["endAt"]);
        let first = end().await;
        let connect = async |seconds: u64| {
            let path = format!("/v2/sandboxes/{}/connect", sandbox.id);
            assert_eq!(
                world
                    .post(&path, json!({ "timeout": seconds }))
                    .await
                    .status,
                200
            );
        };
        connect(10).await;
        assert_eq!(end().await, first);
        connect(1000).await;
        assert!(end().await.duration_since(first).as_secs() >= 850);
    });
}

#[test]
fn connect_requires_a_timeout_in_the_first_version_only() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let path = format!("/sandboxes/{}/connect", sandbox.id);
        assert_eq!(
            world
                .control("POST", &format!("/v2{path}"), None)
                .await
                .status,
            200
        );
        assert_refused(&world.post(&path, json!({})).await, 400, &["timeout"]);
        assert_refused(
            &world
                .post(&format!("/v2{path}"), json!({ "timeout": 0 }))
                .await,
            400,
            &["timeout"],
        );
        assert_refused(
            &world
                .post(&path, json!({ "timeout": 60, "memory": "no" }))
                .await,
            400,
            &["memory"],
        );
    });
}

#[test]
fn connect_resumes_a_paused_sandbox_with_its_processes() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        world
            .shell(&sandbox, "sleep 1000 >/dev/null 2>&1 & echo $! > /pid")
            .await;
        assert_eq!(world.pause(&sandbox).await.status, 204);
        let answer = world.connect(&sandbox).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["sandboxID"].as_str()),
            (201, Some(sandbox.id.as_str()))
        );
        assert_eq!(world.state(&sandbox).await, "running");
        assert_eq!(
            world
                .shell(&sandbox, "kill -0 $(cat /pid) && echo alive")
                .await,
            "alive\n"
        );
    });
}

#[test]
fn resumed_sandbox_has_the_requested_lifetime() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 30 }))
            .await;
        world.pause(&sandbox).await;
        world
            .post(
                &format!("/v2/sandboxes/{}/connect", sandbox.id),
                json!({ "timeout": 500 }),
            )
            .await;
        let left =
            moment(&world.info(&sandbox).await["endAt"]).duration_since(jiff::Timestamp::now());
        assert!((440..=500).contains(&left.as_secs()), "{left}");
    });
}

#[test]
fn concurrent_connects_resume_once() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        world.pause(&sandbox).await;
        let answers = futures::future::join_all((0..10).map(|_| world.connect(&sandbox))).await;
        let resumed = answers.iter().filter(|answer| answer.status == 201).count();
        assert_eq!(resumed, 1);
        assert!(
            answers
                .iter()
                .all(|answer| answer.status == 201 || answer.status == 200)
        );
    });
}

#[test]
fn connect_without_memory_ends_processes() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        world
            .shell(&sandbox, "sleep 1000 >/dev/null 2>&1 & echo $! > /pid")
            .await;
        world.pause(&sandbox).await;
        let path = format!("/v2/sandboxes/{}/connect", sandbox.id);
        assert_eq!(
            world
                .post(&path, json!({ "timeout": 60, "memory": false }))
                .await
                .status,
            201
        );
        assert_eq!(
            world
                .shell(&sandbox, "test -s /pid && (pgrep sleep || echo nothing)")
                .await,
            "nothing\n"
        );
    });
}

#[test]
fn resume_of_old_sdks_requires_a_paused_sandbox() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let path = format!("/sandboxes/{}/resume", sandbox.id);
        assert_refused(
            &world.post(&path, json!({ "timeout": 60 })).await,
            409,
            &["running"],
        );
        world.pause(&sandbox).await;
        assert_eq!(
            world
                .post(&path, json!({ "timeout": 60, "autoPause": true }))
                .await
                .status,
            201
        );
        assert_eq!(
            world.info(&sandbox).await["lifecycle"]["onTimeout"],
            "pause"
        );
    });
}

#[test]
fn connect_to_an_unknown_sandbox_is_not_found() {
    World::run(async |world| {
        for id in ["nonesuch", "not%20an%20id", "..%2f..%2fetc"] {
            let answer = world
                .post(
                    &format!("/v2/sandboxes/{id}/connect"),
                    json!({ "timeout": 60 }),
                )
                .await;
            assert_refused(&answer, 404, &["not found"]);
        }
    });
}
