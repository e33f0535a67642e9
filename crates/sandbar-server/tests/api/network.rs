//! Network policies and secrets through the API.

use http::StatusCode;
use sandbar_core::{ErrorCode, NetworkPolicy, SecretName, SecretValue, SessionSpec};
use serde_json::json;

use crate::{
    invalid_requests::assert_rejected,
    world::{PROTOCOLS, World},
};

fn loose() -> NetworkPolicy {
    let policy: NetworkPolicy = "allow=example.com,*.example.org:443".parse().unwrap();
    NetworkPolicy {
        required: false,
        ..policy
    }
}

#[test]
fn network_policy_works_over_every_protocol() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let spec = SessionSpec {
                network: Some(loose()),
                ..SessionSpec::new("small".parse().unwrap())
            };
            let session = client.create_session(spec).await.unwrap();
            assert_eq!(session.network, Some(loose()), "{protocol:?}");
            let status = client.get_network(&session.id).await.unwrap();
            assert_eq!(status.policy, loose());
            // This host has no isolation, and reports that.
            assert!(
                status.enforced.reason().unwrap().contains("none"),
                "{status:?}"
            );
            let full = client
                .set_network(&session.id, NetworkPolicy::full())
                .await
                .unwrap();
            assert_eq!(full.policy, NetworkPolicy::full());
            assert_eq!(
                client.get_session(&session.id).await.unwrap().network,
                Some(NetworkPolicy::full())
            );
            let refused = client
                .set_network(&session.id, NetworkPolicy::none())
                .await
                .unwrap_err();
            assert_eq!(
                (refused.code(), refused.field()),
                (ErrorCode::InvalidArgument, Some("network"))
            );
            assert_eq!(
                client.get_network(&session.id).await.unwrap().policy,
                NetworkPolicy::full()
            );
            client.destroy_session(&session.id).await.unwrap();
            let gone = client.get_network(&session.id).await.unwrap_err();
            assert_eq!(gone.code(), ErrorCode::SessionNotFound);
        }
    });
}

#[test]
fn network_policy_in_json_may_omit_fields() {
    World::run(async |world| {
        let network = json!({"allow_list": ["api.example"], "required": false});
        let body = json!({"baseSnapshot": "small", "sessionId": "box", "network": network});
        let made = world.call("CreateSession", &body).await;
        assert_eq!(made.status, StatusCode::OK, "{:?}", made.body);
        assert_eq!(
            made.json()["session"]["network"]["allowList"],
            json!(["api.example"])
        );
        let answer = world
            .call("GetNetwork", &json!({"sessionId": "box"}))
            .await
            .json();
        assert_eq!(answer["status"]["network"]["required"], false);
        assert!(answer["status"].get("enforced").is_none(), "{answer}");
        assert!(answer["status"]["reason"].is_string(), "{answer}");
        // The default policy is required, and this runtime cannot enforce it.
        let strict = world
            .call("SetNetwork", &json!({"sessionId": "box", "network": {}}))
            .await;
        assert_eq!(
            (strict.status, &strict.detail()["field"]),
            (StatusCode::BAD_REQUEST, &json!("network"))
        );
    });
}

#[test]
fn secrets_are_listed_by_name_without_values() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let name = SecretName::new("key").unwrap();
            let first = client
                .put_secret(&name, &SecretValue::new("hunter-one").unwrap())
                .await
                .unwrap();
            let again = client
                .put_secret(&name, &SecretValue::new("hunter-two").unwrap())
                .await
                .unwrap();
            assert!(again.changed >= first.changed);
            assert_eq!(client.list_secrets().await.unwrap(), [again]);
            let listed = world.call("ListSecrets", &json!({})).await;
            assert!(
                !String::from_utf8_lossy(&listed.body).contains("hunter"),
                "{:?}",
                listed.body
            );
            client.delete_secret(&name).await.unwrap();
            let gone = client.delete_secret(&name).await.unwrap_err();
            assert_eq!(
                (gone.code(), gone.field()),
                (ErrorCode::SecretNotFound, Some("name"))
            );
            assert!(gone.hint().is_some());
            assert_eq!(client.list_secrets().await.unwrap(), []);
        }
    });
}

#[test]
fn rejected_secret_is_not_echoed() {
    World::run(async |world| {
        let answer = world
            .call("PutSecret", &json!({"name": "key", "value": "hunter\n2"}))
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert!(
            !String::from_utf8_lossy(&answer.body).contains("hunter"),
            "{:?}",
            answer.body
        );
    });
}

#[test]
fn invalid_policy_or_secret_field_is_named_with_a_hint() {
    World::run(async |world| {
        world
            .call(
                "CreateSession",
                &json!({"baseSnapshot": "small", "sessionId": "box"}),
            )
            .await;
        let cases = [
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "network": {}}),
                "network",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "network": {"allowList": ["http://x"]}}),
                "network.allow_list",
            ),
            (
                "CreateSession",
                json!({"baseSnapshot": "small", "network": {"allowOutbound": true, "required": false, "secrets": [
                    {"host": "a.example", "header": "Authorization", "secret": "unknown"},
                ]}}),
                "network.secrets.secret",
            ),
            ("GetNetwork", json!({}), "session_id"),
            ("SetNetwork", json!({"sessionId": "box"}), "network"),
            (
                "SetNetwork",
                json!({"sessionId": "box", "network": {"denyList": ["a b"]}}),
                "network.deny_list",
            ),
            (
                "SetNetwork",
                json!({"sessionId": "box", "network": {"privateRanges": ["10.0.0.1/8"]}}),
                "network.private_ranges",
            ),
            (
                "SetNetwork",
                json!({"sessionId": "box", "network": {"limits": {"connections": 0}}}),
                "network.limits.connections",
            ),
            ("PutSecret", json!({"value": "x"}), "name"),
            ("PutSecret", json!({"name": "a/b", "value": "x"}), "name"),
            ("PutSecret", json!({"name": "a"}), "value"),
            ("DeleteSecret", json!({"name": ".."}), "name"),
        ];
        for (method, body, field) in cases {
            let answer = world.call(method, &body).await;
            assert_eq!(
                answer.status,
                StatusCode::BAD_REQUEST,
                "{method} {body}: {:?}",
                answer.body
            );
            assert_rejected(method, &body, &answer.json(), field);
        }
    });
}
