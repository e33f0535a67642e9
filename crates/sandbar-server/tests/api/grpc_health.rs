//! `grpc.health.v1`, which needs no token.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::{
    raw::{Answer, exchange, frames, get, send, unframe},
    world::World,
};

const SERVICE: &str = "sandbar.v1.SandboxService";

impl World {
    fn health_request(&self, call: &str, content_type: &str, body: Bytes) -> Request<Full<Bytes>> {
        let mut request =
            self.request(&format!("grpc.health.v1.Health/{call}"), content_type, body);
        request.headers_mut().remove("authorization");
        request
    }

    async fn check_health(&self, service: &str) -> Answer {
        let body = json!({"service": service}).to_string();
        send(
            self.address,
            self.health_request("Check", "application/json", body.into()),
        )
        .await
    }
}

#[test]
fn grpc_health_of_a_ready_host_needs_no_token() {
    World::run(async |world| {
        for service in ["", SERVICE] {
            let answer = world.check_health(service).await;
            assert_eq!(
                (answer.status, answer.json()),
                (StatusCode::OK, json!({"status": "SERVING"})),
                "{service}"
            );
        }
        let answer = world.check_health("sandbar.v1.Unknown").await;
        assert_eq!(
            (answer.status, answer.json()["code"].clone()),
            (StatusCode::NOT_FOUND, json!("not_found"))
        );
        let request = world.health_request("Unknown", "application/json", "{}".into());
        assert_eq!(
            send(world.address, request).await.json()["code"],
            "unimplemented"
        );
        let large = world.check_health(&"x".repeat(20_000)).await;
        assert_eq!(large.json()["code"], "resource_exhausted");
    });
}

#[test]
fn grpc_health_of_an_unhealthy_host_is_not_serving() {
    World::run_full(async |world| {
        assert_eq!(
            get(world.address, "/readyz").await.status,
            StatusCode::SERVICE_UNAVAILABLE
        );
        assert_eq!(
            world.check_health("").await.json(),
            json!({"status": "NOT_SERVING"})
        );
    });
}

#[test]
fn grpc_health_watch_ends_at_shutdown() {
    World::run(async |world| {
        let body = frames(&[json!({"service": SERVICE})]);
        let request = world.health_request("Watch", "application/connect+json", body);
        let mut watch = exchange(world.address, request).await;
        let first = watch
            .response
            .body_mut()
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&first[5..]).unwrap(),
            json!({"status": "SERVING"})
        );
        world.stop.cancel();
        let rest = watch
            .response
            .body_mut()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        assert_eq!(
            unframe(&rest),
            [json!({"status": "NOT_SERVING"}), json!({})]
        );
    });
}
