//! Metrics and audit log.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use sandbar_core::{AuditQuery, Resources, ToolCallId, ToolRequest};
use sandbar_server::{ServerConfig, serve};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    raw::{get, send},
    world::{Ended, PROTOCOLS, World, shell},
};

fn scrape(token: &str) -> Request<Full<Bytes>> {
    let request = Request::get("/metrics")
        .header("host", "localhost")
        .header("authorization", format!("Bearer {token}"));
    request.body(Full::default()).unwrap()
}

#[test]
fn metrics_need_a_token() {
    World::run(async |world| {
        assert_eq!(
            get(world.address, "/metrics").await.status,
            StatusCode::UNAUTHORIZED
        );
        let answer = send(world.address, scrape(&world.token)).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(
            answer.headers["content-type"],
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        );
        let text = std::str::from_utf8(&answer.body).unwrap();
        for line in [
            "# TYPE sandbar_operation_seconds histogram",
            "sandbar_operations_total{operation=\"import_base\",outcome=\"ok\"} 1",
            "sandbar_sessions{state=\"active\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    });
}

#[test]
fn audit_log_names_the_caller_and_not_the_token() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let id = world.session(&client).await.id;
            let serde_json::Value::Object(params) = json!({"path": "missing"}) else {
                panic!()
            };
            let (tool, call, resources) = (
                "read_file".into(),
                ToolCallId::new("1").unwrap(),
                Resources::default(),
            );
            client
                .execute_tool(
                    &id,
                    &ToolRequest {
                        tool,
                        call,
                        params,
                        resources,
                    },
                )
                .await
                .unwrap();
            Ended::of(client.exec(&id, shell("true")).await.unwrap()).await;
            client.destroy_session(&id).await.unwrap();
            let log = world
                .host
                .audit(&id, AuditQuery::default())
                .await
                .unwrap()
                .items;
            let whats: Vec<&str> = log.iter().map(|entry| entry.what.as_str()).collect();
            assert_eq!(
                whats,
                ["create_session", "execute_tool", "exec", "destroy_session"],
                "{protocol:?}"
            );
            let caller = log[0].who.as_str();
            let hash = caller
                .strip_prefix("token:")
                .and_then(|rest| rest.strip_suffix("@127.0.0.1"))
                .unwrap();
            assert!(hash.len() == 8 && !world.token.contains(hash), "{caller}");
            assert!(
                log.iter().all(|entry| entry.who.as_str() == caller),
                "{protocol:?}: {log:?}"
            );
        }
    });
}

#[test]
fn audit_log_names_callers_without_a_token_anonymous() {
    World::run(async |world| {
        let stop = CancellationToken::new();
        let config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), None);
        let server = serve(world.host.clone(), config, stop.clone())
            .await
            .unwrap();
        let body = json!({"baseSnapshot": "small", "sessionId": "s"});
        let answer = send(
            server.address(),
            world.request("CreateSession", "application/json", body.to_string()),
        )
        .await;
        assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
        let log = world
            .host
            .audit(&"s".parse().unwrap(), AuditQuery::default())
            .await
            .unwrap()
            .items;
        assert_eq!(log[0].who.as_str(), "anonymous@127.0.0.1");
        stop.cancel();
        server.finished().await.unwrap();
    });
}
