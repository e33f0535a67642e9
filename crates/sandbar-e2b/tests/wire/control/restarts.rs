//! Restarts of the host on the same data.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::moment;
use crate::{client::Sandbox, world::World};

/// Returns the details of a sandbox without the address of its host.
fn wherever(mut told: Value) -> Value {
    told["domain"] = Value::Null;
    told
}

#[test]
fn sandboxes_tokens_and_notes_survive_a_restart() {
    let made = Mutex::new(Vec::new());
    World::run_and_start_again(
        async |world| {
            let body = json!({ "templateID": "base", "timeout": 900, "metadata": { "a": "b" }, "autoPause": true });
            let sandbox = world.sandbox_with(body).await;
            world.shell(&sandbox, "echo kept > /kept").await;
            let info = world.info(&sandbox).await;
            made.lock().unwrap().push((sandbox, info));
        },
        async |world| {
            let (before, info) = made.lock().unwrap().pop().unwrap();
            let sandbox = Sandbox {
                address: world.address,
                ..before
            };
            assert_eq!(wherever(world.info(&sandbox).await), wherever(info));
            assert_eq!(sandbox.http("GET", "/health", "").await.status, 204);
            assert_eq!(world.shell(&sandbox, "cat /kept").await, "kept\n");
            assert_eq!(
                world.connect(&sandbox).await.json()["envdAccessToken"].as_str(),
                sandbox.access_token.as_deref()
            );
        },
    );
}

#[test]
fn paused_sandbox_survives_a_restart_with_its_files() {
    let made = Mutex::new(Vec::new());
    World::run_and_start_again(
        async |world| {
            let sandbox = world
                .sandbox_with(json!({ "templateID": "base", "timeout": 900 }))
                .await;
            world.shell(&sandbox, "echo kept > /kept").await;
            assert_eq!(world.pause(&sandbox).await.status, 204);
            made.lock().unwrap().push(sandbox);
        },
        async |world| {
            let sandbox = Sandbox {
                address: world.address,
                ..made.lock().unwrap().pop().unwrap()
            };
            assert_eq!(world.state(&sandbox).await, "paused");
            assert_eq!(world.connect(&sandbox).await.status, 201);
            assert_eq!(world.shell(&sandbox, "cat /kept").await, "kept\n");
            let left =
                moment(&world.info(&sandbox).await["endAt"]).duration_since(jiff::Timestamp::now());
            assert!(left.as_secs() > 200, "{left}");
        },
    );
}

#[test]
fn retried_create_after_a_restart_finds_its_sandbox() {
    let made = Mutex::new(None);
    let body = json!({ "templateID": "base", "timeout": 900 });
    let send = async |world: &World| {
        let headers = [
            ("x-api-key", world.api_key.as_str()),
            ("idempotency-key", "k-1"),
        ];
        let answer = world
            .control_with("POST", "/v2/sandboxes", &headers, Some(&body))
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    };
    World::run_and_start_again(
        async |world| {
            let handle = send(world).await;
            *made.lock().unwrap() = Some(handle);
        },
        async |world| {
            let handle = send(world).await;
            assert_eq!(
                Some(wherever(handle)),
                made.lock().unwrap().take().map(wherever)
            );
            assert_eq!(
                world
                    .get("/v2/sandboxes")
                    .await
                    .json()
                    .as_array()
                    .unwrap()
                    .len(),
                1
            );
        },
    );
}
