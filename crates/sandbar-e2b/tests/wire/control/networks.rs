//! Network settings of sandboxes.

use sandbar_core::{NetworkPolicy, SessionId};
use serde_json::{Value, json};

use super::assert_refused;
use crate::{client::Sandbox, world::World};

async fn policy(world: &World, sandbox: &Sandbox) -> NetworkPolicy {
    let id = SessionId::new(sandbox.id.as_str()).unwrap();
    world.host.get_session(&id).await.unwrap().network.unwrap()
}

async fn with(world: &World, network: Value) -> Sandbox {
    world
        .sandbox_with(json!({ "templateID": "base", "network": network }))
        .await
}

async fn put(world: &World, sandbox: &Sandbox, body: Value) -> crate::client::Answer {
    world
        .control(
            "PUT",
            &format!("/sandboxes/{}/network", sandbox.id),
            Some(&body),
        )
        .await
}

fn rules(token: &str) -> Value {
    json!({ "api.example.com": [{ "transform": { "headers": { "Authorization": token } } }] })
}

#[test]
fn internet_is_reachable_by_default() {
    World::run(async |world| {
        assert!(policy(world, &world.sandbox().await).await.allow_outbound);
        let open = world
            .sandbox_with(json!({ "templateID": "base", "allow_internet_access": true }))
            .await;
        assert!(policy(world, &open).await.allow_outbound);
        let closed = world
            .sandbox_with(json!({ "templateID": "base", "allow_internet_access": false }))
            .await;
        let policy = policy(world, &closed).await;
        assert!(policy.is_closed() && policy.required);
    });
}

#[test]
fn no_address_is_reachable_without_internet() {
    World::run(async |world| {
        let closed = world
            .sandbox_with(json!({ "templateID": "base", "allow_internet_access": false }))
            .await;
        let script = "exec 3<>/dev/tcp/192.0.2.1/80 && echo open || echo closed";
        let output = world
            .shell(
                &closed,
                &format!("timeout 5 bash -c '{script}' 2>/dev/null || echo closed"),
            )
            .await;
        assert!(output.starts_with("closed"), "{output}");
    });
}

#[test]
fn network_lists_are_stored_and_shown_as_sent() {
    World::run(async |world| {
        let network = json!({ "allowOut": ["1.1.1.1", "*.example.com"], "denyOut": ["0.0.0.0/0"], "maskRequestHost": "${PORT}-app.example.com" });
        let sandbox = with(world, network.clone()).await;
        let kept = policy(world, &sandbox).await;
        assert!(!kept.allow_outbound);
        assert_eq!(
            kept.allow_list
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            ["1.1.1.1", "*.example.com"]
        );
        assert_eq!(world.info(&sandbox).await["network"], network);
    });
}

#[test]
fn network_update_replaces_all_egress_settings() {
    World::run(async |world| {
        let sandbox =
            with(world, json!({ "denyOut": ["0.0.0.0/0"], "allowOut": ["1.1.1.1"], "allowPublicTraffic": false }))
                .await;
        assert_eq!(
            put(world, &sandbox, json!({ "denyOut": ["8.8.8.8"] }))
                .await
                .status,
            204
        );
        let kept = policy(world, &sandbox).await;
        assert!(kept.allow_outbound && kept.allow_list.is_empty() && !kept.allow_public_ingress);
        assert_eq!(kept.deny_list[0].to_string(), "8.8.8.8");
        let told = world.info(&sandbox).await;
        assert_eq!(
            told["network"],
            json!({ "denyOut": ["8.8.8.8"], "allowPublicTraffic": false })
        );
        assert_eq!(put(world, &sandbox, json!({})).await.status, 204);
        assert!(policy(world, &sandbox).await.is_unrestricted());
        assert_eq!(
            put(world, &sandbox, json!({ "allow_internet_access": false }))
                .await
                .status,
            204
        );
        assert!(policy(world, &sandbox).await.is_closed());
        assert_eq!(world.info(&sandbox).await["allowInternetAccess"], false);
    });
}

#[test]
fn injected_headers_are_secrets_deleted_with_the_sandbox() {
    World::run(async |world| {
        let sandbox = with(world, json!({ "rules": rules("Bearer one") })).await;
        let secrets = async || world.host.list_secrets().await.unwrap().len();
        assert_eq!(
            (policy(world, &sandbox).await.secrets.len(), secrets().await),
            (1, 1)
        );
        assert_eq!(
            world.info(&sandbox).await["network"]["rules"],
            rules("Bearer one")
        );
        assert_eq!(
            put(world, &sandbox, json!({ "rules": rules("Bearer two") }))
                .await
                .status,
            204
        );
        assert_eq!(
            (policy(world, &sandbox).await.secrets.len(), secrets().await),
            (1, 1)
        );
        assert_eq!(put(world, &sandbox, json!({})).await.status, 204);
        assert_eq!(secrets().await, 0);
        assert_eq!(
            put(world, &sandbox, json!({ "rules": rules("Bearer three") }))
                .await
                .status,
            204
        );
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                .await
                .status,
            204
        );
        assert_eq!(secrets().await, 0);
    });
}

#[test]
fn fork_keeps_its_injected_headers() {
    World::run(async |world| {
        let source = with(world, json!({ "rules": rules("Bearer one") })).await;
        let answer = world
            .post(&format!("/v2/sandboxes/{}/fork", source.id), json!({}))
            .await;
        let copy = Sandbox::of(world.address, &answer.json()[0]["sandbox"]);
        world
            .control("DELETE", &format!("/sandboxes/{}", source.id), None)
            .await;
        let kept = policy(world, &copy).await.secrets;
        let secrets = world.host.list_secrets().await.unwrap();
        assert_eq!((kept.len(), secrets.len()), (1, 1));
        assert_eq!(kept[0].secret, secrets[0].name);
    });
}

#[test]
fn failed_create_leaves_no_secrets() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "network": { "rules": rules("x") }, "metadata": { "": "" } });
        assert_refused(&world.post("/v2/sandboxes", body).await, 400, &["metadata"]);
        assert!(world.host.list_secrets().await.unwrap().is_empty());
    });
}

#[test]
fn unsupported_network_settings_are_refused_by_name() {
    World::run(async |world| {
        for (network, status, field) in [
            (
                json!({ "allowOut": ["example.com"] }),
                400,
                "network.allowOut",
            ),
            (json!({ "denyOut": ["http://x"] }), 400, "network.denyOut"),
            (
                json!({ "maskRequestHost": "a b" }),
                400,
                "network.maskRequestHost",
            ),
            (json!({ "httpsPorts": [0] }), 400, "network.httpsPorts"),
            (json!({ "httpsPorts": [70_000] }), 400, "network.httpsPorts"),
            (json!({ "rules": { "*": [] } }), 400, "network.rules"),
            (
                json!({ "rules": { "a.example": [{ "transform": { "headers": { "Bad Header": "x" } } }] } }),
                400,
                "network.rules",
            ),
            (
                json!({ "egressProxy": { "address": "proxy.example:1080" } }),
                501,
                "network.egressProxy",
            ),
            (
                json!({ "dnsServers": ["9.9.9.9"] }),
                501,
                "network.dnsServers",
            ),
        ] {
            let answer = world
                .post(
                    "/v2/sandboxes",
                    json!({ "templateID": "base", "network": network }),
                )
                .await;
            assert_refused(&answer, status, &[field]);
        }
        let sandbox = world.sandbox().await;
        let proxied = put(
            world,
            &sandbox,
            json!({ "egressProxy": { "address": "proxy.example:1080" } }),
        )
        .await;
        assert_refused(&proxied, 501, &["egressProxy"]);
        world.pause(&sandbox).await;
        assert_refused(&put(world, &sandbox, json!({})).await, 409, &["paused"]);
        assert_refused(
            &world
                .control("PUT", "/sandboxes/nonesuch/network", Some(&json!({})))
                .await,
            404,
            &["nonesuch"],
        );
    });
}
