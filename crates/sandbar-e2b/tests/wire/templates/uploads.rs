//! Uploads of template files.

use http::Request;
use http_body_util::Full;

use super::support::{Wanted, requested};
use crate::{
    client::{Answer, send},
    world::World,
};

/// Returns the upload URL of an archive, and whether it is present.
pub(super) async fn link(world: &World, template: &str, hash: &str) -> (bool, String) {
    let answer = world
        .control("GET", &format!("/templates/{template}/files/{hash}"), None)
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let answer = answer.json();
    (
        answer["present"].as_bool().unwrap(),
        answer["url"].as_str().unwrap().to_owned(),
    )
}

/// Uploads an archive without a key, as SDKs do.
pub(super) async fn put(world: &World, url: &str, bytes: Vec<u8>) -> Answer {
    let address = world.address.to_string();
    let path = url.strip_prefix(&format!("http://{address}")).unwrap();
    let request = Request::put(path)
        .header("host", address)
        .body(Full::from(bytes))
        .unwrap();
    send(world.address, request).await
}

#[test]
fn archive_is_uploaded_once_to_a_signed_url() {
    World::run(async |world| {
        let (template, _) = requested(world, &Wanted::new("files")).await;
        let hash = "ab".repeat(32);
        let (present, url) = link(world, &template, &hash).await;
        assert!(!present);
        let other = "cd".repeat(32);
        for forged in [
            url.replace("signature=", "signature=0"),
            url.replace(&hash, &other),
            url.replace("expires=", "expires=9"),
        ] {
            assert_eq!(
                put(world, &forged, b"x".to_vec()).await.status,
                403,
                "{forged}"
            );
        }
        let (bare, _) = url.split_once('?').unwrap();
        assert_eq!(put(world, bare, b"x".to_vec()).await.status, 403);
        assert_eq!(put(world, &url, b"x".to_vec()).await.status, 200);
        assert!(link(world, &template, &hash).await.0);
        assert!(!link(world, &template, &other).await.0);
        for bad in ["short", "..%2f..%2fetc", &"AB".repeat(32)] {
            let answer = world
                .control("GET", &format!("/templates/{template}/files/{bad}"), None)
                .await;
            assert_eq!(answer.status, 400, "{bad}");
        }
        let answer = world
            .control("GET", &format!("/templates/never/files/{hash}"), None)
            .await;
        assert_eq!(answer.status, 404);
        let unknown = world
            .control_with(
                "GET",
                &format!("/templates/{template}/files/{hash}"),
                &[],
                None,
            )
            .await;
        assert_eq!(unknown.status, 401);
    });
}
