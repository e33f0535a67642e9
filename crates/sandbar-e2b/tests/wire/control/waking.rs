//! Waking sandboxes by requests.

use serde_json::json;

use crate::world::World;

#[test]
fn request_wakes_an_auto_resume_sandbox() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "timeout": 2, "autoPause": true, "autoResume": { "enabled": true } });
        let sandbox = world.sandbox_with(body).await;
        world.until(&sandbox, "paused").await;
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 204);
        assert_eq!(world.state(&sandbox).await, "running");
        // Even with a short timeout, it does not pause again during the request.
        let left = super::moment(&world.info(&sandbox).await["endAt"])
            .duration_since(jiff::Timestamp::now());
        assert!(left.as_secs() > 30, "{left}");
    });
}

#[test]
fn auto_resume_of_older_sdks_is_understood() {
    World::run(async |world| {
        for (policy, wakes) in [("any", true), ("off", false)] {
            let body = json!({ "templateID": "base", "autoPause": true, "autoResume": { "policy": policy } });
            let sandbox = world.sandbox_with(body).await;
            assert_eq!(
                world.info(&sandbox).await["lifecycle"]["autoResume"],
                wakes,
                "{policy}"
            );
        }
    });
}

#[test]
fn fifty_concurrent_requests_wake_once() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "timeout": 300, "autoPause": true, "autoResume": { "enabled": true } });
        let sandbox = world.sandbox_with(body).await;
        world
            .shell(&sandbox, "sleep 1000 >/dev/null 2>&1 & echo $! > /pid")
            .await;
        world.pause(&sandbox).await;
        let answers =
            futures::future::join_all((0..50).map(|_| sandbox.http("GET", "/health", ""))).await;
        assert!(answers.iter().all(|answer| answer.status == 204));
        assert_eq!(
            world
                .shell(&sandbox, "kill -0 $(cat /pid) && echo alive")
                .await,
            "alive\n"
        );
        let log = world
            .get(&format!("/v2/sandboxes/{}/logs?search=resume", sandbox.id))
            .await
            .json();
        assert_eq!(log["logs"].as_array().unwrap().len(), 1, "{log}");
    });
}

#[test]
fn request_does_not_wake_without_auto_resume() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 300, "autoPause": true }))
            .await;
        world.pause(&sandbox).await;
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 502);
        assert_eq!(world.state(&sandbox).await, "paused");
    });
}

#[test]
fn request_does_not_wake_a_sandbox_paused_without_memory() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "timeout": 300, "autoPause": true, "autoResume": { "enabled": true } });
        let sandbox = world.sandbox_with(body).await;
        let path = format!("/sandboxes/{}/pause", sandbox.id);
        assert_eq!(
            world.post(&path, json!({ "memory": false })).await.status,
            204
        );
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 502);
        assert_eq!(world.connect(&sandbox).await.status, 201);
    });
}

#[test]
fn wrong_token_wakes_no_sandbox() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "timeout": 300, "autoPause": true, "autoResume": { "enabled": true } });
        let mut sandbox = world.sandbox_with(body).await;
        world.pause(&sandbox).await;
        sandbox.access_token = Some("wrong".into());
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 401);
        assert_eq!(world.state(&sandbox).await, "paused");
    });
}
