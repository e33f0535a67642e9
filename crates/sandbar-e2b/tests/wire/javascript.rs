//! Behaviour of the JavaScript SDK only: it runs in browsers, and parses JSON from every response
//! without `content-length: 0`.

use http::{Request, Version};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::{
    names::{self, DOMAIN, read},
    world::World,
};

#[test]
fn preflight_with_sandbox_headers_is_allowed() {
    World::run(async |world| {
        let asks = |headers: &'static str| {
            let asks = [
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", headers),
            ];
            async move {
                world
                    .control_with("OPTIONS", "/process.Process/Start", &asks, None)
                    .await
            }
        };
        let wanted =
            "connect-protocol-version,content-type,e2b-sandbox-id,e2b-sandbox-port,x-access-token";
        let answer = asks(wanted).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
        assert_eq!(answer.headers["access-control-allow-headers"], wanted);
        assert_eq!(answer.headers["access-control-allow-origin"], "*");
        let native = asks("content-type").await;
        assert!(
            !native.headers.contains_key("access-control-allow-origin"),
            "{native:?}"
        );
    });
}

#[test]
fn empty_http_2_response_has_a_content_length() {
    names::run(async |_, names| {
        let asked: Value = names
            .control("POST", "/v3/templates", &json!({ "name": "empty" }))
            .await
            .json();
        let text = |name: &str| asked[name].as_str().unwrap().to_owned();
        let api = format!("api.{DOMAIN}");
        let path = format!(
            "/v2/templates/{}/builds/{}",
            text("templateID"),
            text("buildID")
        );
        let request = Request::post(format!("https://{}{path}", names.authority(&api)))
            .version(Version::HTTP_2)
            .header("x-api-key", names.api_key())
            .body(Full::from(
                json!({ "fromTemplate": "never-made" }).to_string(),
            ))
            .unwrap();
        let mut sender = names.connect_2(&api).await;
        let answer = read(sender.send_request(request).await.unwrap()).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.headers["content-length"]),
            (202, &"0".parse().unwrap())
        );
    });
}
