//! Authentication.

use http::StatusCode;
use sandbar_client::Client;
use sandbar_core::ErrorCode;
use sandbar_server::{ServerConfig, serve};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    raw::{get, send},
    world::{PROTOCOLS, World},
};

#[test]
fn only_health_and_openapi_are_served_without_a_token() {
    World::run(async |world| {
        for path in ["/healthz", "/readyz", "/openapi.json"] {
            assert_eq!(
                get(world.address, path).await.status,
                StatusCode::OK,
                "{path}"
            );
        }
        for path in [
            "/",
            "/metrics",
            "/mcp",
            "/sandbar.v1.SandboxService/ListBases",
            "/healthz/x",
        ] {
            assert_eq!(
                get(world.address, path).await.status,
                StatusCode::UNAUTHORIZED,
                "{path}"
            );
        }
        for wrong in [None, Some("Bearer wrong"), Some("Bearer "), Some("")] {
            for method in [
                "ListBases",
                "Exec",
                "GetNetwork",
                "PutSecret",
                "ListSecrets",
                "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            ] {
                let mut request = world.request(method, "application/json", "{}");
                request.headers_mut().remove("authorization");
                if let Some(wrong) = wrong {
                    request
                        .headers_mut()
                        .insert("authorization", wrong.parse().unwrap());
                }
                let answer = send(world.address, request).await;
                assert_eq!(
                    answer.status,
                    StatusCode::UNAUTHORIZED,
                    "{method} {wrong:?}"
                );
                assert_eq!(answer.json()["code"], "unauthenticated");
                assert_eq!(answer.detail()["code"], "Unauthenticated");
                assert!(
                    answer.detail()["hint"]
                        .as_str()
                        .unwrap()
                        .contains("SANDBAR_TOKEN")
                );
            }
        }
    });
}

#[test]
fn invalid_token_is_reported_in_the_callers_protocol() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            for token in [None, Some("not-the-token")] {
                let client = Client::connect_with(&world.url(), token, protocol)
                    .await
                    .unwrap();
                let error = client.list_bases().await.unwrap_err();
                assert_eq!(error.code(), ErrorCode::Unauthenticated, "{protocol:?}");
                assert!(error.hint().is_some(), "{protocol:?}");
                let id = sandbar_core::SessionId::new("box").unwrap();
                let error = client
                    .exec(&id, crate::world::shell("true"))
                    .await
                    .unwrap_err();
                assert_eq!(error.code(), ErrorCode::Unauthenticated, "{protocol:?}");
                assert!(error.hint().is_some(), "{protocol:?}");
            }
        }
    });
}

#[test]
fn api_version_is_sent_and_old_versions_are_rejected() {
    World::run(async |world| {
        for (version, status) in [
            (None, StatusCode::OK),
            (Some("v1"), StatusCode::OK),
            (Some("7"), StatusCode::OK),
            (Some("v0"), StatusCode::BAD_REQUEST),
            (Some("new"), StatusCode::BAD_REQUEST),
        ] {
            let mut request = world.request("ListBases", "application/json", "{}");
            if let Some(version) = version {
                request
                    .headers_mut()
                    .insert("x-api-version", version.parse().unwrap());
            }
            let answer = send(world.address, request).await;
            assert_eq!(answer.status, status, "{version:?}");
            assert_eq!(answer.headers["x-api-version"], "v1");
            match version {
                Some("v0") => assert_eq!(answer.json()["code"], "failed_precondition"),
                Some("new") => assert_eq!(answer.json()["code"], "invalid_argument"),
                _ => assert!(answer.json()["bases"].is_array()),
            }
        }
        assert_eq!(
            get(world.address, "/healthz").await.headers["x-api-version"],
            "v1"
        );
        // Rejected requests get the version header as well.
        assert_eq!(
            get(world.address, "/metrics").await.headers["x-api-version"],
            "v1"
        );
    });
}

#[test]
fn server_without_a_token_serves_only_loopback() {
    World::run(async |world| {
        let open = |listen: &str| {
            serve(
                world.host.clone(),
                ServerConfig::new(listen.parse().unwrap(), None),
                stop(),
            )
        };
        let error = open("0.0.0.0:0").await.unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidArgument, Some("listen"))
        );
        let server = open("127.0.0.1:0").await.unwrap();
        let answer = send(server.address(), {
            let mut request = world.request("ListBases", "application/json", "{}");
            request.headers_mut().remove("authorization");
            request
        });
        assert_eq!(answer.await.json()["bases"][0]["name"], json!("small"));
        let error = open(&server.address().to_string()).await.unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidState, Some("listen"))
        );
        assert!(error.hint().is_some());
    });
}

fn stop() -> CancellationToken {
    CancellationToken::new()
}
