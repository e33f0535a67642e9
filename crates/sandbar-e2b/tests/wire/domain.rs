//! Host names over TLS, as the SDKs use them with `E2B_DOMAIN`.

use http::{Request, Version};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::{
    names::{self, DOMAIN, Names, read},
    ports::{PORT, serve_in, talk},
};

fn text<'a>(handle: &'a Value, name: &str) -> &'a str {
    handle[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name} in {handle}"))
}

fn name_of(handle: &Value, port: u16) -> String {
    format!("{port}-{}.{DOMAIN}", text(handle, "sandboxID"))
}

/// Sends a request over HTTP/2, with the host name in `:authority`.
fn get(names: &Names, name: &str, path: &str) -> http::request::Builder {
    Request::get(format!("https://{}{path}", names.authority(name))).version(Version::HTTP_2)
}

#[test]
fn api_envd_and_ports_have_host_names() {
    names::run(async |world, names| {
        let sandbox = names.sandbox().await;
        let id = text(&sandbox, "sandboxID");
        assert_eq!(text(&sandbox, "domain"), names.authority(DOMAIN));
        let found = names
            .control("GET", &format!("/sandboxes/{id}"), &json!({}))
            .await;
        assert_eq!(
            (found.status.as_u16(), found.json()["sandboxID"].as_str()),
            (200, Some(id))
        );
        serve_in(world, id).await;

        let agent = name_of(&sandbox, 49_983);
        let token = text(&sandbox, "envdAccessToken");
        let health = Request::get("/health").header("x-access-token", token);
        assert_eq!(names.send(&agent, health, "").await.status, 204);
        let web = names
            .send(&name_of(&sandbox, PORT), Request::get("/page"), "")
            .await;
        assert_eq!(
            (web.status.as_u16(), web.text()),
            (200, "web got GET /page")
        );

        // The same over HTTP/2, and by headers with the shared host name.
        let shared = format!("sandbox.{DOMAIN}");
        for (name, headers, path, status) in [
            (&agent, &[("x-access-token", token)][..], "/health", 204),
            (&name_of(&sandbox, PORT), &[], "/", 200),
            (
                &shared,
                &[
                    ("x-access-token", token),
                    ("e2b-sandbox-id", id),
                    ("e2b-sandbox-port", "49983"),
                ],
                "/health",
                204,
            ),
            (
                &shared,
                &[("e2b-sandbox-id", id), ("e2b-sandbox-port", "8000")],
                "/",
                200,
            ),
            // A host name that names a sandbox takes precedence.
            (
                &name_of(&sandbox, PORT),
                &[("e2b-sandbox-id", "other"), ("e2b-sandbox-port", "49983")],
                "/health",
                200,
            ),
        ] {
            let mut sender = names.connect_2(name).await;
            let mut request = get(names, name, path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let answer = read(
                sender
                    .send_request(request.body(Full::default()).unwrap())
                    .await
                    .unwrap(),
            )
            .await;
            assert_eq!(
                answer.status.as_u16(),
                status,
                "{name}{path} {headers:?}: {}",
                answer.text()
            );
        }
    });
}

#[test]
fn kill_resets_http_2_streams_not_the_connection() {
    names::run(async |world, names| {
        let sandbox = names.sandbox().await;
        let id = text(&sandbox, "sandboxID");
        serve_in(world, id).await;
        let name = name_of(&sandbox, PORT);
        let mut sender = names.connect_2(&name).await;
        let endless = get(names, &name, "/endless").body(Full::default()).unwrap();
        let mut stream = sender.send_request(endless).await.unwrap().into_body();
        assert_eq!(
            stream.frame().await.unwrap().unwrap().into_data().unwrap(),
            "first"
        );
        assert_eq!(
            names
                .control("DELETE", &format!("/sandboxes/{id}"), &json!({}))
                .await
                .status,
            204
        );
        let error = stream.collect().await.unwrap_err();
        let why = std::error::Error::source(&error)
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(why.starts_with("stream error"), "{error:?}: {why}");

        // On the same connection, an SDK checks whether the sandbox still exists.
        for path in ["/", "/health"] {
            let again = get(names, &name, path).body(Full::default()).unwrap();
            let gone = read(sender.send_request(again).await.unwrap()).await;
            let expected =
                json!({ "sandboxId": id, "message": "The sandbox was not found", "code": 502 });
            assert_eq!((gone.status.as_u16(), gone.json()), (502, expected));
        }
        let agent = name_of(&sandbox, 49_983);
        let health =
            Request::get("/health").header("x-access-token", text(&sandbox, "envdAccessToken"));
        let gone = names.send(&agent, health, "").await;
        assert_eq!(
            (gone.status.as_u16(), gone.json()["message"].as_str()),
            (502, Some("The sandbox was not found"))
        );
    });
}

#[test]
fn websocket_is_routed_by_name_over_tls() {
    names::run(async |world, names| {
        let sandbox = names.sandbox().await;
        serve_in(world, text(&sandbox, "sandboxID")).await;
        let name = name_of(&sandbox, PORT);
        let socket = names.connect(&name, b"http/1.1").await;
        let request = format!(
            "GET /socket HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            names.authority(&name)
        );
        talk(socket, &request).await;
    });
}
