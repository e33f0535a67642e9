//! Pausing sandboxes.

use serde_json::json;

use super::assert_refused;
use crate::world::World;

#[test]
fn paused_sandbox_cannot_be_paused_again() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        assert_eq!(world.pause(&sandbox).await.status, 204);
        assert_eq!(world.state(&sandbox).await, "paused");
        assert_refused(&world.pause(&sandbox).await, 409, &["already paused"]);
    });
}

#[test]
fn envd_of_a_paused_sandbox_is_not_found() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        world.pause(&sandbox).await;
        let health = sandbox.http("GET", "/health", "").await;
        assert_eq!(
            (health.status.as_u16(), health.json()["message"].as_str()),
            (502, Some("The sandbox was not found"))
        );
        world.connect(&sandbox).await;
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 204);
    });
}

#[test]
fn pause_needs_no_body() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        assert_eq!(
            world
                .control("POST", &format!("/sandboxes/{}/pause", sandbox.id), None)
                .await
                .status,
            204
        );
    });
}

#[test]
fn pause_of_files_ends_processes() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        world
            .shell(&sandbox, "echo kept > /kept; sleep 1000 >/dev/null 2>&1 &")
            .await;
        let path = format!("/sandboxes/{}/pause", sandbox.id);
        assert_eq!(
            world.post(&path, json!({ "memory": false })).await.status,
            204
        );
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
fn boot_id_changes_only_when_processes_were_ended() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let boot_id = async || {
            let path = "/files?path=/proc/sys/kernel/random/boot_id&username=user";
            let answer = sandbox.http("GET", path, "").await;
            assert_eq!(
                (answer.status.as_u16(), answer.text().trim().len()),
                (200, 36),
                "{}",
                answer.text()
            );
            answer.text().to_owned()
        };
        let first = boot_id().await;
        let path = format!("/sandboxes/{}/pause", sandbox.id);
        assert_eq!(world.post(&path, json!({})).await.status, 204);
        assert_eq!(world.connect(&sandbox).await.status, 201);
        assert_eq!(boot_id().await, first);
        assert_eq!(
            world.post(&path, json!({ "memory": false })).await.status,
            204
        );
        assert_eq!(world.connect(&sandbox).await.status, 201);
        assert_ne!(boot_id().await, first);
        for (path, status) in [
            ("/proc/nothing", 404),
            ("/proc/self/../sys", 400),
            ("/sys", 400),
        ] {
            let answer = sandbox
                .http("GET", &format!("/files?path={path}"), "")
                .await;
            assert_refused(&answer, status, &["path '"]);
        }
    });
}

#[test]
fn nothing_is_lost_over_many_pauses_with_writes_between() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let mut rounds = Vec::new();
        let pauses = sandbar_testing::scaled(50, 6);
        for round in 0..pauses {
            rounds.push(format!("{round}\n"));
            let noise = format!(
                "head -c 100000 /dev/urandom > /noise.{round}; sha256sum /noise.{round} >> /sums"
            );
            world
                .shell(&sandbox, &format!("echo {round} >> /log; {noise}"))
                .await;
            let memory = round % 5 != 0;
            let path = format!("/sandboxes/{}/pause", sandbox.id);
            assert_eq!(
                world.post(&path, json!({ "memory": memory })).await.status,
                204,
                "round {round}"
            );
            assert_eq!(world.connect(&sandbox).await.status, 201, "round {round}");
            assert_eq!(
                world.shell(&sandbox, "cat /log").await,
                rounds.concat(),
                "round {round}"
            );
        }
        let checked = world
            .shell(&sandbox, "sha256sum -c /sums | grep -c OK")
            .await;
        assert_eq!(checked, format!("{pauses}\n"));
    });
}

#[test]
fn paused_sandbox_does_not_expire() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 1 }))
            .await;
        assert_eq!(world.pause(&sandbox).await.status, 204);
        // Outlives its lifetime: a sandbox created later with the same timeout is gone
        // first.
        let other = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 1 }))
            .await;
        let path = format!("/sandboxes/{}", other.id);
        super::eventually("the other is gone", async || {
            world.get(&path).await.status == 404
        })
        .await;
        assert_eq!(world.state(&sandbox).await, "paused");
        assert_eq!(world.connect(&sandbox).await.status, 201);
    });
}

#[test]
fn pause_with_an_invalid_body_is_refused() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let answer = world
            .post(
                &format!("/sandboxes/{}/pause", sandbox.id),
                json!({ "memory": 1 }),
            )
            .await;
        assert_refused(&answer, 400, &["memory"]);
        assert_eq!(world.state(&sandbox).await, "running");
    });
}
