//! API keys and their scopes.

use sandbar_core::{SessionId, TokenName, TokenScope};
use sandbar_e2b::api_key;
use serde_json::json;

use super::assert_refused;
use crate::{
    client::{Answer, Sandbox},
    world::World,
};

/// Returns the key of a new token with one scope.
async fn key(world: &World, name: &str, scope: TokenScope) -> String {
    let made = world
        .host
        .create_token(&TokenName::new(name).unwrap(), vec![scope], None)
        .await
        .unwrap();
    api_key(made.secret.reveal())
}

async fn call(world: &World, key: &str, method: &str, path: &str) -> Answer {
    let body = json!({ "templateID": "base", "timeout": 60, "snapshot": "x", "count": 1 });
    let body = (method != "GET" && method != "DELETE").then_some(&body);
    world
        .control_with(method, path, &[("x-api-key", key)], body)
        .await
}

fn session_of(sandbox: &Sandbox) -> TokenScope {
    TokenScope::Session(SessionId::new(sandbox.id.as_str()).unwrap())
}

#[test]
fn every_path_requires_a_valid_key() {
    World::run(async |world| {
        let id = world.sandbox().await.id;
        for (method, path) in [
            ("POST", "/sandboxes".to_owned()),
            ("POST", "/v2/sandboxes".to_owned()),
            ("GET", "/v2/sandboxes".to_owned()),
            ("GET", "/sandboxes".to_owned()),
            ("GET", format!("/sandboxes/{id}")),
            ("DELETE", format!("/sandboxes/{id}")),
            ("POST", format!("/v2/sandboxes/{id}/connect")),
            ("POST", format!("/sandboxes/{id}/pause")),
            ("PUT", format!("/sandboxes/{id}/network")),
            ("GET", format!("/sandboxes/{id}/metrics")),
            ("GET", format!("/v2/sandboxes/{id}/logs")),
            ("POST", format!("/sandbar/sandboxes/{id}/rollback")),
            ("GET", "/volumes".to_owned()),
            ("GET", "/nonesuch/in/templates".replace("/nonesuch/in", "")),
        ] {
            for headers in [
                &[][..],
                &[("x-api-key", "e2b_0123456789abcdef")],
                &[("x-api-key", "")],
            ] {
                let answer = world.control_with(method, &path, headers, None).await;
                assert_refused(&answer, 401, &["E2B_API_KEY"]);
            }
        }
        assert_eq!(world.get(&format!("/sandboxes/{id}")).await.status, 200);
    });
}

#[test]
fn read_key_can_read_everything_and_change_nothing() {
    World::run(async |world| {
        let rules = json!({ "api.example.com": [{ "transform": { "headers": { "Authorization": "Bearer hush" } } }] });
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "network": { "rules": rules } }))
            .await;
        let reader = key(world, "reader", TokenScope::Read).await;
        let id = &sandbox.id;
        for path in [
            "/v2/sandboxes",
            "/sandboxes",
            &format!("/sandboxes/{id}/metrics"),
            &format!("/v2/sandboxes/{id}/logs"),
        ] {
            assert_eq!(
                call(world, &reader, "GET", path).await.status,
                200,
                "{path}"
            );
        }
        let seen = call(world, &reader, "GET", &format!("/sandboxes/{id}")).await;
        assert_eq!(seen.status, 200);
        assert!(
            seen.json()["envdAccessToken"].is_null() && !seen.text().contains("hush"),
            "{}",
            seen.text()
        );
        for (method, path) in [
            ("POST", "/v2/sandboxes".to_owned()),
            ("DELETE", format!("/sandboxes/{id}")),
            ("POST", format!("/v2/sandboxes/{id}/connect")),
            ("POST", format!("/sandboxes/{id}/resume")),
            ("POST", format!("/sandboxes/{id}/pause")),
            ("POST", format!("/sandboxes/{id}/timeout")),
            ("POST", format!("/sandboxes/{id}/refreshes")),
            ("POST", format!("/v2/sandboxes/{id}/fork")),
            ("PUT", format!("/sandboxes/{id}/network")),
            ("POST", format!("/sandbar/sandboxes/{id}/snapshots")),
            ("POST", format!("/sandbar/sandboxes/{id}/turns")),
            ("POST", format!("/sandbar/sandboxes/{id}/rollback")),
        ] {
            assert_refused(&call(world, &reader, method, &path).await, 403, &["scope"]);
        }
        assert_eq!(world.state(&sandbox).await, "running");
    });
}

#[test]
fn session_key_grants_only_its_sandbox() {
    World::run(async |world| {
        let (own, other) = (world.sandbox().await, world.sandbox().await);
        let narrow = key(world, "narrow", session_of(&own)).await;
        assert_eq!(
            call(world, &narrow, "GET", &format!("/sandboxes/{}", own.id))
                .await
                .status,
            200
        );
        assert_eq!(
            call(
                world,
                &narrow,
                "POST",
                &format!("/v2/sandboxes/{}/connect", own.id)
            )
            .await
            .status,
            200
        );
        assert_eq!(
            call(
                world,
                &narrow,
                "POST",
                &format!("/sandboxes/{}/pause", own.id)
            )
            .await
            .status,
            204
        );
        let listed = call(world, &narrow, "GET", "/v2/sandboxes").await.json();
        assert_eq!(listed.as_array().unwrap().len(), 1);
        assert_eq!(listed[0]["sandboxID"], own.id);
        for (method, path) in [
            ("GET", format!("/sandboxes/{}", other.id)),
            ("DELETE", format!("/sandboxes/{}", other.id)),
            ("POST", format!("/v2/sandboxes/{}/connect", other.id)),
            (
                "GET",
                format!("/sandboxes/metrics?sandbox_ids={}", other.id),
            ),
            ("GET", "/sandboxes/nonesuch".to_owned()),
            ("POST", "/v2/sandboxes".to_owned()),
            ("POST", format!("/v2/sandboxes/{}/fork", own.id)),
            ("PUT", format!("/sandboxes/{}/network", own.id)),
        ] {
            assert_refused(&call(world, &narrow, method, &path).await, 403, &["scope"]);
        }
        assert_eq!(
            call(world, &narrow, "DELETE", &format!("/sandboxes/{}", own.id))
                .await
                .status,
            204
        );
    });
}

#[test]
fn revoked_key_is_refused() {
    World::run(async |world| {
        let once = key(world, "once", TokenScope::Admin).await;
        assert_eq!(call(world, &once, "GET", "/v2/sandboxes").await.status, 200);
        world
            .host
            .revoke_token(&TokenName::new("once").unwrap())
            .await
            .unwrap();
        assert_refused(&call(world, &once, "GET", "/v2/sandboxes").await, 401, &[]);
    });
}

#[test]
fn sandbox_tokens_are_not_api_keys() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "network": { "allowPublicTraffic": false } });
        let sandbox = world.sandbox_with(body).await;
        for token in [
            sandbox.access_token.unwrap(),
            sandbox.traffic_token.unwrap(),
        ] {
            assert_refused(&call(world, &token, "GET", "/v2/sandboxes").await, 401, &[]);
            assert_refused(
                &call(world, &api_key(&token), "GET", "/v2/sandboxes").await,
                401,
                &[],
            );
        }
    });
}

#[test]
fn log_names_the_caller() {
    World::run(async |world| {
        let admin = key(world, "ada", TokenScope::Admin).await;
        let sandbox = world.sandbox().await;
        assert_eq!(
            call(
                world,
                &admin,
                "POST",
                &format!("/sandboxes/{}/pause", sandbox.id)
            )
            .await
            .status,
            204
        );
        let log = world
            .get(&format!("/v2/sandboxes/{}/logs", sandbox.id))
            .await
            .json();
        let actors = log["logs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["fields"]["actor"].as_str().unwrap());
        assert!(
            actors.into_iter().any(|actor| actor.contains("ada")),
            "{log}"
        );
    });
}

#[test]
fn key_of_one_sandbox_does_not_extend_its_lifetime() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "timeout": 100 }))
            .await;
        let (id, narrow) = (
            &sandbox.id,
            key(world, "narrow", session_of(&sandbox)).await,
        );
        let end = async || world.get(&format!("/sandboxes/{id}")).await.json()["endAt"].clone();
        let before = end().await;
        let ask = async |path: &str, body: serde_json::Value| {
            world
                .control_with("POST", path, &[("x-api-key", &narrow)], Some(&body))
                .await
        };
        for path in [
            format!("/sandboxes/{id}/timeout"),
            format!("/sandboxes/{id}/refreshes"),
        ] {
            assert_refused(
                &ask(&path, json!({ "timeout": 9000, "duration": 900 })).await,
                403,
                &["scope"],
            );
        }
        for path in [
            format!("/sandboxes/{id}/connect"),
            format!("/v2/sandboxes/{id}/connect"),
        ] {
            assert_eq!(
                ask(&path, json!({ "timeout": 9000 })).await.status,
                200,
                "{path}"
            );
        }
        assert_eq!(end().await, before);
        // An admin shortens it. Pausing and waking restores nothing.
        let shorter = json!({ "timeout": 50 });
        assert_eq!(
            world
                .control("POST", &format!("/sandboxes/{id}/timeout"), Some(&shorter))
                .await
                .status,
            204
        );
        assert_eq!(
            ask(&format!("/sandboxes/{id}/pause"), json!({}))
                .await
                .status,
            204
        );
        assert_refused(
            &ask(
                &format!("/sandboxes/{id}/resume"),
                json!({ "autoPause": true }),
            )
            .await,
            403,
            &["scope"],
        );
        assert_eq!(
            ask(
                &format!("/sandboxes/{id}/connect"),
                json!({ "timeout": 9000 })
            )
            .await
            .status,
            201
        );
        let woken: jiff::Timestamp = end().await.as_str().unwrap().parse().unwrap();
        assert!(
            woken.duration_since(jiff::Timestamp::now()).as_secs() <= 50,
            "{woken}"
        );
    });
}
