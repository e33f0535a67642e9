//! Signed URLs of files.

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use http::Request;
use http_body_util::Full;
use sha2::{Digest as _, Sha256};

use crate::{
    client::{Answer, Sandbox, send},
    uploads::{encoded, form},
    world::World,
};

/// Returns the signed part of a URL, as an SDK computes it.
pub(crate) fn signed(
    sandbox: &Sandbox,
    path: &str,
    operation: &str,
    user: Option<&str>,
    end: Option<i64>,
) -> String {
    let token = sandbox.access_token.as_ref().unwrap();
    let tail = end.map(|end| format!(":{end}")).unwrap_or_default();
    let text = format!(
        "{path}:{operation}:{}:{token}{tail}",
        user.unwrap_or_default()
    );
    let signature = format!("v1_{}", BASE64_STANDARD_NO_PAD.encode(Sha256::digest(text)));
    let user = user
        .map(|user| format!("&username={user}"))
        .unwrap_or_default();
    let end = end
        .map(|end| format!("&signature_expiration={end}"))
        .unwrap_or_default();
    format!(
        "/files?path={}&signature={}{user}{end}",
        encoded(path),
        encoded(&signature)
    )
}

/// Sends a request with nothing but a URL.
async fn fetch(sandbox: &Sandbox, address: &str, body: Option<(&str, bytes::Bytes)>) -> Answer {
    let mut request = Request::builder()
        .uri(address)
        .header("host", sandbox.address.to_string());
    if let Some((kind, _)) = &body {
        request = request.method("POST").header("content-type", *kind);
    }
    let body = body.map(|(_, body)| body).unwrap_or_default();
    send(sandbox.address, request.body(Full::new(body)).unwrap()).await
}

#[test]
fn signed_url_reads_one_file_without_a_sandbox_id() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let other = world.sandbox().await;
        sandbox.write("shared.txt", b"shared").await;
        sandbox.write("secret.txt", b"secret").await;
        other.write("shared.txt", b"of another").await;
        let soon = jiff::Timestamp::now().as_second() + 60;
        for (user, end) in [
            (None, None),
            (Some("user"), None),
            (None, Some(soon)),
            (Some("user"), Some(soon)),
        ] {
            let address = signed(&sandbox, "shared.txt", "read", user, end);
            let answer = fetch(&sandbox, &address, None).await;
            assert_eq!(
                (answer.status.as_u16(), answer.text()),
                (200, "shared"),
                "{address}"
            );
            let elsewhere = fetch(&sandbox, &address.replace("shared", "secret"), None).await;
            assert_eq!(
                (elsewhere.status.as_u16(), elsewhere.json()["code"].as_u64()),
                (401, Some(401))
            );
        }
        let theirs = fetch(
            &sandbox,
            &signed(&other, "shared.txt", "read", None, None),
            None,
        )
        .await;
        assert_eq!(theirs.text(), "of another");
        let late = signed(&sandbox, "shared.txt", "read", None, Some(soon - 120));
        let late = fetch(&sandbox, &late, None).await;
        let told = (
            late.status.as_u16(),
            late.json()["message"].as_str().unwrap().to_owned(),
        );
        assert_eq!(told, (401, "signature is already expired".into()));
        let nothing = fetch(&sandbox, "/files?path=shared.txt", None).await;
        assert_eq!(
            (nothing.status.as_u16(), nothing.json()["message"].as_str()),
            (401, Some("missing signature query parameter"))
        );
        let longer = signed(&sandbox, "shared.txt", "read", None, Some(soon))
            .replace(&soon.to_string(), &(soon + 9).to_string());
        assert_eq!(fetch(&sandbox, &longer, None).await.status, 401);
    });
}

/// Returns how often the host looked up the token of a session.
async fn questions(world: &World) -> u64 {
    let text = world.host.metrics_text().await;
    let start = "sandbar_operations_total{operation=\"port_access\",outcome=\"ok\"} ";
    text.lines()
        .find_map(|line| line.strip_prefix(start))
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn cost_of_a_signed_url_is_independent_of_sandbox_count() {
    World::run(async |world| {
        let mut others = Vec::new();
        let mut taken = Vec::new();
        for _ in 0..3 {
            let sandbox = world.sandbox().await;
            sandbox.write("file", b"x").await;
            let address = signed(&sandbox, "file", "read", None, None);
            let before = questions(world).await;
            // The second time it is cached.
            for _ in 0..2 {
                assert_eq!(fetch(&sandbox, &address, None).await.text(), "x");
            }
            assert_eq!(
                fetch(
                    &sandbox,
                    &address.replace("signature=", "signature=x"),
                    None
                )
                .await
                .status,
                401
            );
            taken.push(questions(world).await - before);
            others.extend([world.sandbox().await, sandbox]);
        }
        assert!(taken.iter().all(|count| *count == taken[0]), "{taken:?}");
        // A URL of a destroyed sandbox is refused, cached or not.
        let gone = others.pop().unwrap();
        let address = signed(&gone, "file", "read", None, None);
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", gone.id), None)
                .await
                .status,
            204
        );
        assert_eq!(fetch(&gone, &address, None).await.status, 401);
    });
}

#[test]
fn file_is_uploaded_by_a_signed_url() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let (kind, body) = form(&[("up.txt", b"uploaded")]);
        let address = signed(&sandbox, "up.txt", "write", None, None);
        let answer = fetch(&sandbox, &address, Some((&kind, body.clone()))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(sandbox.read("up.txt").await, "uploaded");
        let to_read = signed(&sandbox, "up.txt", "read", None, None);
        assert_eq!(
            fetch(&sandbox, &to_read, Some((&kind, body))).await.status,
            401
        );
        assert_eq!(fetch(&sandbox, &address, None).await.status, 401);
        let as_root = signed(&sandbox, "/root/up.txt", "write", Some("root"), None);
        let raw = ("application/octet-stream", "of root".into());
        assert_eq!(fetch(&sandbox, &as_root, Some(raw)).await.status, 200);
        assert_eq!(
            sandbox
                .as_user("root")
                .bash("stat -c %U /root/up.txt; cat /root/up.txt")
                .await
                .text(),
            "root\nof root"
        );
    });
}

#[test]
fn wrong_token_is_refused_even_with_a_signature() {
    World::run(async |world| {
        let mut sandbox = world.sandbox().await;
        sandbox.write("file", b"x").await;
        let address = signed(&sandbox, "file", "read", None, None);
        sandbox.access_token = Some("wrong".into());
        for path in [address.as_str(), "/files?path=file"] {
            let answer = sandbox.http("GET", path, "").await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()["code"].as_u64()),
                (401, Some(401))
            );
        }
        sandbox.access_token = None;
        assert_eq!(sandbox.http("GET", &address, "").await.text(), "x");
    });
}

#[test]
fn health_with_only_an_access_token_is_of_its_sandbox() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let token = sandbox.access_token.clone().unwrap();
        let health = async |token: &str| {
            let headers = [("x-access-token", token)];
            world
                .control_with("GET", "/health", &headers, None)
                .await
                .status
                .as_u16()
        };
        assert_eq!(health(&token).await, 204);
        assert_eq!(health("of-no-sandbox").await, 502);
        assert_eq!(
            world.control_with("GET", "/health", &[], None).await.status,
            401
        );
        assert_eq!(world.control("GET", "/health", None).await.status, 204);
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                .await
                .status,
            204
        );
        assert_eq!(health(&token).await, 502);
    });
}

#[test]
fn calls_with_only_an_access_token_are_for_its_sandbox() {
    World::run(async |world| {
        let (sandbox, _other) = (world.sandbox().await, world.sandbox().await);
        sandbox.write("mine.txt", b"mine").await;
        let token = sandbox.access_token.clone().unwrap();
        let list = async |headers: &[(&str, &str)]| {
            let body = serde_json::json!({ "path": "/home/user", "depth": 1 });
            world
                .control_with(
                    "POST",
                    "/filesystem.Filesystem/ListDir",
                    headers,
                    Some(&body),
                )
                .await
        };
        let answer = list(&[("x-access-token", &token)]).await;
        assert!(
            answer.status == 200 && answer.text().contains("mine.txt"),
            "{}",
            answer.text()
        );
        assert_eq!(
            list(&[("x-access-token", "of-no-sandbox")]).await.status,
            502
        );
        assert_eq!(list(&[]).await.status, 401);
    });
}
