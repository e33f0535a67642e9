//! Expiry of sandboxes.

use sandbar_core::{ProcessSpec, SessionId};
use serde_json::json;

use super::{assert_refused, eventually, moment};
use crate::world::World;

#[test]
fn timeout_counts_from_now() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        for seconds in [1000, 60, 2000] {
            let path = format!("/sandboxes/{}/timeout", sandbox.id);
            assert_eq!(
                world
                    .post(&path, json!({ "timeout": seconds }))
                    .await
                    .status,
                204
            );
            let left = moment(&world.info(&sandbox).await["endAt"])
                .duration_since(jiff::Timestamp::now())
                .as_secs();
            assert!(
                (seconds - 50..=seconds).contains(&left),
                "{left} of {seconds}"
            );
        }
    });
}

#[test]
fn timeout_of_zero_kills_at_once() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        assert_eq!(
            world
                .post(
                    &format!("/sandboxes/{}/timeout", sandbox.id),
                    json!({ "timeout": 0 })
                )
                .await
                .status,
            204
        );
        let path = format!("/sandboxes/{}", sandbox.id);
        eventually("it is gone", async || world.get(&path).await.status == 404).await;
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 502);
    });
}

#[test]
fn expired_sandbox_is_killed() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 1 }))
            .await;
        let path = format!("/sandboxes/{}", sandbox.id);
        eventually("it is gone", async || world.get(&path).await.status == 404).await;
        assert!(
            world
                .get("/v2/sandboxes")
                .await
                .json()
                .as_array()
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn auto_pause_keeps_processes_on_expiry() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 60, "autoPause": true }))
            .await;
        world
            .shell(&sandbox, "sleep 1000 >/dev/null 2>&1 & echo $! > /pid")
            .await;
        world
            .post(
                &format!("/sandboxes/{}/timeout", sandbox.id),
                json!({ "timeout": 0 }),
            )
            .await;
        world.until(&sandbox, "paused").await;
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 502);
        assert_eq!(world.connect(&sandbox).await.status, 201);
        assert_eq!(
            world
                .shell(&sandbox, "kill -0 $(cat /pid) && echo alive")
                .await,
            "alive\n"
        );
    });
}

#[test]
fn auto_pause_without_memory_keeps_only_files() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "timeout": 60, "autoPause": true, "autoPauseMemory": false });
        let sandbox = world.sandbox_with(body).await;
        world
            .shell(&sandbox, "echo kept > /kept; sleep 1000 >/dev/null 2>&1 &")
            .await;
        let session = SessionId::new(sandbox.id.as_str()).unwrap();
        let sleeper = world
            .host
            .launch_process(&session, ProcessSpec::new(["/bin/sleep", "1000"]))
            .await
            .unwrap();
        world
            .post(
                &format!("/sandboxes/{}/timeout", sandbox.id),
                json!({ "timeout": 0 }),
            )
            .await;
        world.until(&sandbox, "paused").await;
        eventually("what ran is ended", async || {
            world
                .host
                .get_process_status(&session, &sleeper.id)
                .await
                .unwrap()
                .exit
                .is_some()
        })
        .await;
        assert_eq!(world.state(&sandbox).await, "paused");
        assert_eq!(world.connect(&sandbox).await.status, 201);
        assert_eq!(
            world
                .shell(&sandbox, "cat /kept; pgrep sleep || echo nothing")
                .await,
            "kept\nnothing\n"
        );
    });
}

#[test]
fn connect_at_expiry_finds_it_running_or_paused() {
    World::run(async |world| {
        for _ in 0..10 {
            let sandbox = world
                .sandbox_with(json!({ "templateID": "base", "timeout": 60, "autoPause": true }))
                .await;
            let timeout = format!("/sandboxes/{}/timeout", sandbox.id);
            assert_eq!(
                world.post(&timeout, json!({ "timeout": 0 })).await.status,
                204
            );
            let more = world.post(&timeout, json!({ "timeout": 100 })).await;
            match more.status.as_u16() {
                204 => assert_eq!(world.state(&sandbox).await, "running"),
                _ => assert_refused(&more, 404, &["paused", "connect"]),
            }
            world.post(&timeout, json!({ "timeout": 0 })).await;
            let connected = world.connect(&sandbox).await;
            assert!(
                matches!(connected.status.as_u16(), 200 | 201),
                "{} {}",
                connected.status,
                connected.text()
            );
            assert_eq!(world.state(&sandbox).await, "running");
            assert_eq!(
                world
                    .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                    .await
                    .status,
                204
            );
        }
    });
}

#[test]
fn timeout_of_a_paused_sandbox_is_not_found() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        world.pause(&sandbox).await;
        for (path, body) in [
            ("timeout", json!({ "timeout": 60 })),
            ("refreshes", json!({ "duration": 60 })),
        ] {
            let answer = world
                .post(&format!("/sandboxes/{}/{path}", sandbox.id), body)
                .await;
            assert_refused(&answer, 404, &["paused", "connect"]);
        }
    });
}

#[test]
fn refresh_extends_and_never_shortens_the_lifetime() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 100 }))
            .await;
        let (path, end) = (format!("/sandboxes/{}/refreshes", sandbox.id), async || {
            moment(&world.info(&sandbox).await["endAt"])
        });
        let first = end().await;
        assert_eq!(
            world.post(&path, json!({ "duration": 10 })).await.status,
            204
        );
        assert_eq!(end().await, first);
        assert_eq!(
            world.post(&path, json!({ "duration": 3600 })).await.status,
            204
        );
        assert!(end().await > first);
        assert_refused(
            &world.post(&path, json!({ "duration": 3601 })).await,
            400,
            &["duration"],
        );
        assert_eq!(world.control("POST", &path, None).await.status, 204);
    });
}

#[test]
fn invalid_timeout_is_refused_by_name() {
    World::run(async |world| {
        let path = format!("/sandboxes/{}/timeout", world.sandbox().await.id);
        for body in [
            json!({}),
            json!({ "timeout": "1" }),
            json!({ "timeout": -5 }),
            json!({ "timeout": null }),
        ] {
            assert_refused(&world.post(&path, body).await, 400, &["timeout"]);
        }
        assert_refused(
            &world
                .post("/sandboxes/nonesuch/timeout", json!({ "timeout": 1 }))
                .await,
            404,
            &["nonesuch"],
        );
    });
}
