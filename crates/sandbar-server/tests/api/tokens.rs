//! Access tokens: creation, use and revocation.

use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::Full;
use sandbar_client::{Client, WireProtocol};
use sandbar_core::{
    AuditQuery, ErrorCode, NetworkPolicy, PageRequest, SessionFilter, SessionId, SessionSpec,
    TokenScope,
};
use sandbar_testing::eventually;
use serde_json::json;

use crate::{
    exec::Watched,
    ingress_world::Ports,
    raw::send,
    world::{PROTOCOLS, World, shell},
};

impl World {
    /// Creates a token with these scopes, and returns its secret.
    pub(crate) async fn token(&self, name: &str, scopes: &[&str]) -> String {
        let scopes = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
        let made = self
            .host
            .create_token(&name.parse().unwrap(), scopes, None)
            .await
            .unwrap();
        made.secret.reveal().to_owned()
    }

    /// Creates an expired admin token.
    pub(crate) async fn expired_token(&self) -> String {
        let (name, time) = ("expired".parse().unwrap(), Some(Duration::from_millis(1)));
        let made = self
            .host
            .create_token(&name, vec![TokenScope::Admin], time)
            .await
            .unwrap();
        let secret = made.secret.reveal().to_owned();
        eventually("the token expires", || {
            self.host.known_token(secret.as_bytes()).is_err()
        });
        secret
    }

    pub(crate) async fn client_with(&self, token: &str, protocol: WireProtocol) -> Client {
        Client::connect_with(&self.url(), Some(token), protocol)
            .await
            .unwrap()
    }

    async fn named_session(&self, name: &str) -> SessionId {
        let spec = SessionSpec {
            id: name.parse().ok(),
            ..SessionSpec::new("small".parse().unwrap())
        };
        self.host.create_session(spec).await.unwrap().id
    }
}

#[test]
fn token_lifecycle_works_over_every_protocol() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let admin = world.client(protocol).await;
            let name = "ci".parse().unwrap();
            let scopes = [TokenScope::Admin, TokenScope::Read];
            let made = admin
                .create_token(&name, &scopes, Some(Duration::from_hours(1)))
                .await
                .unwrap();
            assert_eq!(
                (&made.info.name, &made.info.scopes[..]),
                (&name, &scopes[..])
            );
            assert_eq!(
                made.info
                    .expires
                    .unwrap()
                    .duration_since(made.info.created)
                    .as_hours(),
                1
            );
            let error = admin.create_token(&name, &scopes, None).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::TokenExists, Some("name")),
                "{protocol:?}"
            );
            assert_eq!(
                admin.list_tokens().await.unwrap(),
                std::slice::from_ref(&made.info)
            );

            let holder = world.client_with(made.secret.reveal(), protocol).await;
            holder.list_secrets().await.unwrap();
            let listed = admin.list_tokens().await.unwrap();
            assert!(
                listed[0]
                    .last_used
                    .is_some_and(|used| used >= made.info.created),
                "{listed:?}"
            );
            assert!(!format!("{listed:?} {made:?}").contains(made.secret.reveal()));

            // Revocation applies at once, also on an open connection.
            admin.revoke_token(&name).await.unwrap();
            let error = holder.list_bases().await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unauthenticated, "{protocol:?}");
            assert_eq!(
                admin.revoke_token(&name).await.unwrap_err().code(),
                ErrorCode::TokenNotFound
            );
            assert_eq!(admin.list_tokens().await.unwrap(), []);

            // A caller that revokes its own token gets the response.
            let made = admin.create_token(&name, &scopes, None).await.unwrap();
            let holder = world.client_with(made.secret.reveal(), protocol).await;
            holder.revoke_token(&name).await.unwrap();
            assert_eq!(
                holder.list_bases().await.unwrap_err().code(),
                ErrorCode::Unauthenticated
            );
        }
    });
}

#[test]
fn invalid_token_request_is_rejected_with_its_field() {
    World::run(async |world| {
        for (request, field, code) in [
            (json!({"scopes": ["read"]}), "name", "InvalidArgument"),
            (
                json!({"name": "a/b", "scopes": ["read"]}),
                "name",
                "InvalidArgument",
            ),
            (json!({"name": "a"}), "scopes", "InvalidArgument"),
            (
                json!({"name": "a", "scopes": ["write"]}),
                "scopes",
                "InvalidArgument",
            ),
            (
                json!({"name": "a", "scopes": ["session:"]}),
                "scopes",
                "InvalidArgument",
            ),
            (
                json!({"name": "a", "scopes": ["session:nowhere"]}),
                "scopes",
                "SessionNotFound",
            ),
            (
                json!({"name": "a", "scopes": ["read"], "expiresIn": "0s"}),
                "expires_in",
                "InvalidArgument",
            ),
            (
                json!({"name": "a", "scopes": ["read"], "expiresIn": "-1s"}),
                "expires_in",
                "InvalidArgument",
            ),
        ] {
            let detail = world.call("CreateToken", &request).await.detail();
            assert_eq!(
                (&detail["field"], &detail["code"]),
                (&json!(field), &json!(code)),
                "{request}"
            );
            assert!(
                detail["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
                "{request}: {detail}"
            );
        }
        assert_eq!(
            world
                .call("RevokeToken", &json!({"name": "a"}))
                .await
                .detail()["code"],
            "TokenNotFound"
        );
        assert_eq!(world.host.list_tokens().await.unwrap(), []);
    });
}

#[test]
fn running_call_ends_when_its_token_is_revoked() {
    World::run(async |world| {
        let id = world.named_session("box").await;
        for protocol in PROTOCOLS {
            let token = world.token("agent", &["session:box"]).await;
            let client = world.client_with(&token, protocol).await;
            let mut command = client.exec(&id, shell("exec sleep 1000")).await.unwrap();
            let process = Watched::new(command.pid);
            world
                .host
                .revoke_token(&"agent".parse().unwrap())
                .await
                .unwrap();
            let error = command.next_event().await.unwrap_err();
            assert_eq!(
                error.code(),
                ErrorCode::Unauthenticated,
                "{protocol:?}: {error:?}"
            );
            assert!(error.message().contains("was revoked"), "{error:?}");
            process.has_died().await;
        }
        // Also when the token expires.
        let (name, time) = ("short".parse().unwrap(), Some(Duration::from_millis(300)));
        let scope = vec!["session:box".parse().unwrap()];
        let token = world.host.create_token(&name, scope, time).await.unwrap();
        let client = world
            .client_with(token.secret.reveal(), WireProtocol::Connect)
            .await;
        match client.exec(&id, shell("exec sleep 1000")).await {
            Ok(mut command) => {
                let process = Watched::new(command.pid);
                let error = command.next_event().await.unwrap_err();
                assert!(error.message().contains("has expired"), "{error:?}");
                process.has_died().await;
            }
            // Margin for a busy machine.
            Err(error) => assert_eq!(error.code(), ErrorCode::Unauthenticated),
        }
    });
}

#[test]
fn session_token_is_confined_to_its_session() {
    World::run(async |world| {
        let (own, other) = (
            world.named_session("own").await,
            world.named_session("other").await,
        );
        let token = world.token("agent", &["session:own"]).await;
        for protocol in PROTOCOLS {
            let client = world.client_with(&token, protocol).await;
            let page = client
                .list_sessions(&SessionFilter::default(), &PageRequest::default())
                .await
                .unwrap();
            assert_eq!(
                page.items
                    .iter()
                    .map(|session| &session.id)
                    .collect::<Vec<_>>(),
                [&own],
                "{protocol:?}"
            );
            assert_eq!(page.next_token, None);
            client.turn_complete(&own).await.unwrap();
            let error = client.turn_complete(&other).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::PermissionDenied, "{protocol:?}");
            assert!(error.message().contains("`session:other`"), "{error:?}");
            assert!(
                error.hint().unwrap().contains("sandbar token new"),
                "{error:?}"
            );
            let error = client.exec(&other, shell("true")).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::PermissionDenied, "{protocol:?}");
            client.health().await.unwrap();
            client.capabilities().await.unwrap();
            client.list_tools().await.unwrap();
            assert_eq!(client.list_bases().await.unwrap().len(), 1);
        }
        let reader = world
            .client_with(
                &world.token("reader", &["read"]).await,
                WireProtocol::Connect,
            )
            .await;
        assert_eq!(
            reader
                .all_sessions(&SessionFilter::default())
                .await
                .unwrap()
                .len(),
            2
        );
    });
}

#[test]
fn session_token_is_invalid_for_a_later_session_of_that_id() {
    World::run(async |world| {
        let id = world.named_session("box").await;
        world.named_session("kept").await;
        let token = world.token("agent", &["session:box"]).await;
        let both = world.token("both", &["session:box", "session:kept"]).await;
        let client = world.client_with(&token, WireProtocol::Grpc).await;
        client.destroy_session(&id).await.unwrap();
        assert_eq!(
            client.get_session(&id).await.unwrap_err().code(),
            ErrorCode::Unauthenticated
        );
        world.named_session("box").await;
        assert_eq!(
            client.get_session(&id).await.unwrap_err().code(),
            ErrorCode::Unauthenticated
        );
        let client = world.client_with(&both, WireProtocol::Grpc).await;
        assert_eq!(
            client.get_session(&id).await.unwrap_err().code(),
            ErrorCode::PermissionDenied
        );
        client.get_session(&"kept".parse().unwrap()).await.unwrap();
        let left = world.host.list_tokens().await.unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].scopes, ["session:kept".parse().unwrap()]);
    });
}

#[test]
fn read_token_gets_no_credentials() {
    World::run(async |world| {
        let policy: NetworkPolicy = "allow=example.com,evil.example".parse().unwrap();
        let spec = SessionSpec {
            network: Some(NetworkPolicy {
                required: false,
                ..policy
            }),
            ..SessionSpec::new("small".parse().unwrap())
        };
        let id = world.host.create_session(spec).await.unwrap().id;
        let reader = world
            .client_with(
                &world.token("reader", &["read"]).await,
                WireProtocol::Connect,
            )
            .await;
        let user = world
            .token("user", &["read", &format!("session:{id}")])
            .await;
        let user = world.client_with(&user, WireProtocol::Connect).await;
        let seen = reader.get_network(&id).await.unwrap();
        assert_eq!(seen.traffic_token, None);
        let status = user.get_network(&id).await.unwrap();
        assert!(status.traffic_token.is_some());
        // Network policy is admin-only: a session must not be able to widen its own access.
        let wider = NetworkPolicy {
            required: false,
            ..NetworkPolicy::full()
        };
        let error = user.set_network(&id, wider.clone()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert_eq!(user.get_network(&id).await.unwrap().policy, status.policy);
        let admin = world
            .client_with(
                &world.token("chief", &["admin"]).await,
                WireProtocol::Connect,
            )
            .await;
        assert_eq!(
            admin.set_network(&id, wider.clone()).await.unwrap().policy,
            wider
        );
    });
}

#[test]
fn audit_log_names_the_caller_by_token_name() {
    World::run(async |world| {
        let id = world.named_session("box").await;
        let token = world.token("agent", &["session:box"]).await;
        let client = world.client_with(&token, WireProtocol::Connect).await;
        client.turn_complete(&id).await.unwrap();
        let log = world
            .host
            .audit(&id, AuditQuery::default())
            .await
            .unwrap()
            .items;
        let (made, turn) = (&log[1], &log[2]);
        assert_eq!(
            (made.what.as_str(), &made.detail["token"]),
            ("create_token", &json!("agent"))
        );
        assert_eq!(
            (turn.what.as_str(), turn.who.as_str()),
            ("turn_complete", "token:agent@127.0.0.1")
        );
    });
}

#[test]
fn http_pages_check_tokens_like_calls() {
    World::run(async |world| {
        world.named_session("box").await;
        let reader = world.token("reader", &["read"]).await;
        let agent = world.token("agent", &["session:box"]).await;
        let admin = world.token("admin", &["admin"]).await;
        let expired = world.expired_token().await;
        let metrics = async |token: &str| {
            let request = Request::get("/metrics")
                .header("host", "localhost")
                .header("authorization", format!("Bearer {token}"));
            send(world.address, request.body(Full::default()).unwrap()).await
        };
        for (token, status) in [
            (&reader, StatusCode::OK),
            (&admin, StatusCode::OK),
            (&world.token, StatusCode::OK),
            (&agent, StatusCode::FORBIDDEN),
            (&expired, StatusCode::UNAUTHORIZED),
        ] {
            assert_eq!(metrics(token).await.status, status);
        }
        assert!(
            metrics(&agent).await.detail()["hint"]
                .as_str()
                .unwrap()
                .contains("`read`")
        );

        // Reflection discloses the public `.proto` files only, so any token is sufficient.
        let method = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        for (token, is_enough) in [(&reader, true), (&agent, true), (&expired, false)] {
            let body = crate::raw::frames(&[json!({"listServices": ""})]);
            let mut request = world.request(method, "application/connect+json", body);
            request
                .headers_mut()
                .insert("authorization", format!("Bearer {token}").parse().unwrap());
            let answer = send(world.address, request).await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(
                text.contains("sandbar.v1.SandboxService"),
                is_enough,
                "{text}"
            );
            assert_eq!(text.contains("unauthenticated"), !is_enough, "{text}");
        }
    });
}

#[test]
fn private_ports_accept_tokens_with_session_scope() {
    World::run_isolated(async |world| {
        let (private, _) = world.web_session("private", Ports::Private).await;
        world.isolated_session("other", Ports::Private).await;
        let expired = world.expired_token().await;
        for (token, status) in [
            (world.token("admin", &["admin"]).await, StatusCode::OK),
            (
                world.token("own", &["session:private"]).await,
                StatusCode::OK,
            ),
            (
                world.token("other", &["session:other"]).await,
                StatusCode::UNAUTHORIZED,
            ),
            (
                world.token("reader", &["read"]).await,
                StatusCode::UNAUTHORIZED,
            ),
            (expired, StatusCode::UNAUTHORIZED),
        ] {
            let request = world
                .to(&private, "GET", "/")
                .header("x-sandbar-token", &token);
            assert_eq!(world.ask(request).await.status, status);
            // No token of the host reaches the session.
            let bearer = format!("Bearer {token}");
            let request = world
                .to(&private, "GET", "/head")
                .header("authorization", &bearer);
            let seen = world
                .ask(request.header("x-sandbar-token", &world.token))
                .await;
            assert!(!seen.text().contains(&token), "{}", seen.text());
        }
        world
            .host
            .revoke_token(&"own".parse().unwrap())
            .await
            .unwrap();
    });
}
