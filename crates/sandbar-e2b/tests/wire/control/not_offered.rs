//! Features of E2B that this host does not offer.

use serde_json::json;

use super::assert_refused;
use crate::world::World;

#[test]
fn unsupported_feature_is_named() {
    World::run(async |world| {
        for path in [
            "/volumes",
            "/volumes/v1",
            "/secrets",
            "/secrets/s1",
            "/teams",
        ] {
            assert_refused(&world.get(path).await, 501, &["not offered"]);
        }
        assert_refused(
            &world.post("/volumes", json!({ "name": "v" })).await,
            501,
            &["volumes"],
        );
        let mounts =
            json!({ "templateID": "base", "volumeMounts": [{ "name": "v", "path": "/v" }] });
        assert_refused(
            &world.post("/v2/sandboxes", mounts).await,
            501,
            &["volumeMounts"],
        );
        let iam = json!({ "templateID": "base", "iam": { "tokens": { "aws": { "audience": "a", "tokenType": "JWT-SVID" } } } });
        assert_refused(&world.post("/v2/sandboxes", iam).await, 501, &["iam"]);
        let gateway = json!({ "templateID": "mcp-gateway", "mcp": { "exa": {} } });
        assert_refused(&world.post("/v2/sandboxes", gateway).await, 501, &["mcp"]);
        let sidecars = json!({ "templateID": "base", "sidecars": [{ "entry": "valkey" }] });
        assert_refused(
            &world.post("/v2/sandboxes", sidecars).await,
            501,
            &["sidecars"],
        );
        for placeholder in [
            "${e2b.identity.tokens.aws}",
            "Bearer ${e2b.secrets.openai-key}",
        ] {
            let rules =
                json!({ "a.example": [{ "transform": { "headers": { "A": placeholder } } }] });
            let body = json!({ "templateID": "base", "network": { "rules": rules } });
            assert_refused(
                &world.post("/v2/sandboxes", body).await,
                501,
                &["placeholder", "network.rules"],
            );
        }
    });
}

#[test]
fn empty_unsupported_field_is_accepted() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "volumeMounts": [], "sidecars": [], "iam": {}, "mcp": null, "network": { "egressProxy": null } });
        assert_eq!(world.post("/v2/sandboxes", body).await.status, 201);
    });
}

#[test]
fn unknown_path_and_method_have_different_errors() {
    World::run(async |world| {
        let id = world.sandbox().await.id;
        assert_refused(
            &world.get(&format!("/sandboxes/{id}/nonesuch")).await,
            404,
            &["path"],
        );
        assert_refused(
            &world
                .control("PATCH", &format!("/sandboxes/{id}"), None)
                .await,
            405,
            &["method"],
        );
        assert_eq!(world.get("/health").await.status, 204);
    });
}
