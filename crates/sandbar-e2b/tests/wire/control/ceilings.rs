//! Ceilings of the operator for sandboxes.

use sandbar_core::RootRights;
use sandbar_e2b::SandboxCeilings;
use serde_json::json;

use super::assert_refused;
use crate::world::World;

#[test]
fn sandbox_gets_no_more_than_the_operator_allows() {
    let ceilings = SandboxCeilings {
        open_egress: false,
        public_ports: false,
        root_rights: RootRights::Bare,
    };
    World::run_with_ceilings(ceilings, async |world| {
        // What the SDKs send by default, and a request for more.
        for more in [
            json!({}),
            json!({ "allow_internet_access": true }),
            json!({ "network": { "allowPublicTraffic": true } }),
        ] {
            let mut body = json!({ "templateID": "base", "timeout": 300 });
            body.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let sandbox = world.sandbox_with(body).await;
            assert!(sandbox.traffic_token.is_some(), "{more}");
            let id = sandbox.id.parse().unwrap();
            let session = world.host.get_session(&id).await.unwrap();
            assert_eq!(session.root_rights, RootRights::Bare, "{more}");
            let policy = world.host.get_network(&id).await.unwrap().policy;
            assert!(
                !policy.allow_outbound && !policy.allow_public_ingress && policy.required,
                "{more}: {policy:?}"
            );
            let told = world.get(&format!("/sandboxes/{}", sandbox.id)).await;
            assert_eq!(told.json()["allowInternetAccess"], false, "{}", told.text());
        }
        for (more, key) in [
            (json!({ "secure": false }), "e2b_public_ports"),
            (
                json!({ "network": { "allowOut": ["0.0.0.0/0"] } }),
                "e2b_open_egress",
            ),
        ] {
            let mut body = json!({ "templateID": "base", "timeout": 300 });
            body.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            assert_refused(&world.post("/v2/sandboxes", body).await, 403, &[key]);
        }
        // Nor can it be widened later.
        let sandbox = world.sandbox().await;
        let path = format!("/sandboxes/{}/network", sandbox.id);
        let wide = json!({ "allowOut": ["0.0.0.0/0"] });
        let answer = world.control("PUT", &path, Some(&wide)).await;
        assert_refused(&answer, 403, &["e2b_open_egress"]);
        let open = json!({ "allow_internet_access": true });
        let answer = world.control("PUT", &path, Some(&open)).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
        let id = sandbox.id.parse().unwrap();
        let policy = world.host.get_network(&id).await.unwrap().policy;
        assert!(!policy.allow_outbound, "{policy:?}");
    });
}
