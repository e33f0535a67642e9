//! Malicious and broken registries.

use std::fs;

use hyper::header;
use sandbar_core::{ByteCount, Error, ErrorCode};
use sandbar_oci::ImageCacheSettings;
use sandbar_testing::tree::scratch;
use serde_json::json;

use crate::{
    image::{Images, here, text},
    pulls::{cache, cache_with},
    server::{
        Asked, Body, TestRegistry, broken_after, endless, full, redirect, stalled, status,
        with_header,
    },
};

/// Pulls from a registry that plays a trick, and makes sure that nothing but honest parts is left.
async fn refused(
    trick: impl Fn(&Asked, &[Asked]) -> Option<hyper::Response<Body>> + Send + Sync + 'static,
) -> Error {
    refused_images(Images::tagged("1", &vec![7; 100_000]), trick).await
}

async fn refused_images(
    images: Images,
    trick: impl Fn(&Asked, &[Asked]) -> Option<hyper::Response<Body>> + Send + Sync + 'static,
) -> Error {
    let scratch = scratch();
    let honest = images.parts.clone();
    let registry = TestRegistry::with(images, trick).await;
    let error = cache(scratch.path())
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap_err();
    let images = scratch.path().join("images");
    for part in fs::read_dir(images.join("blobs/sha256")).unwrap() {
        let part = part.unwrap();
        let digest = format!("sha256:{}", part.file_name().to_str().unwrap());
        assert_eq!(
            honest.get(&digest),
            Some(&fs::read(part.path()).unwrap()),
            "{digest}"
        );
    }
    assert_eq!(fs::read_dir(images.join("pulls")).unwrap().count(), 0);
    assert_eq!(error.field(), Some("image"), "{}", error.chain());
    error
}

fn is_blob(asked: &Asked) -> bool {
    asked.path.contains("/blobs/")
}

#[tokio::test]
async fn a_part_with_another_digest_is_not_kept() {
    let images = Images::tagged("1", &vec![7; 100_000]);
    let (layer, length) = (images.largest(), images.parts[&images.largest()].len());
    let error = refused(move |asked, _| {
        asked
            .path
            .ends_with(&layer)
            .then(|| full(200, vec![8; length]))
    })
    .await;
    assert!(error.message().contains("is damaged"), "{error}");
}

#[tokio::test]
async fn a_manifest_with_another_digest_is_not_believed() {
    let other = Images::tagged("1", b"another").parts;
    let error = refused(move |asked, _| {
        let digest = asked.path.rsplit("manifests/").next()?;
        digest
            .starts_with("sha256:")
            .then(|| full(200, other.values().next().unwrap().clone()))
    })
    .await;
    assert!(error.message().contains("is damaged"), "{error}");
}

#[tokio::test]
async fn endless_parts_manifests_and_tokens_are_cut_off() {
    let error = refused(|asked, _| is_blob(asked).then(endless)).await;
    assert!(error.message().contains("sends more than"), "{error}");
    let error = refused(|asked, _| asked.path.contains("/manifests/").then(endless)).await;
    assert!(error.message().contains("sends more than"), "{error}");
    let error = refused(|asked, _| {
        Some(if asked.path.starts_with("/token") {
            endless()
        } else {
            with_header(
                status(401),
                header::WWW_AUTHENTICATE,
                r#"Bearer realm="/token""#,
            )
        })
    })
    .await;
    assert!(error.message().contains("sends more than"), "{error}");
}

#[tokio::test]
async fn redirects_are_counted_and_lead_to_no_other_plain_host() {
    let error = refused(|asked, _| Some(redirect(&format!("{}x", asked.path)))).await;
    assert!(error.message().contains("redirects more than"), "{error}");
    for elsewhere in [
        "http://192.0.2.1/blob",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "http://127.0.0.1.example/x",
    ] {
        let error = refused(move |asked, _| is_blob(asked).then(|| redirect(elsewhere))).await;
        assert!(error.message().contains("not safe"), "{error}");
        let challenge = format!("Bearer realm=\"{elsewhere}\"");
        let error = refused(move |_, _| {
            Some(with_header(
                status(401),
                header::WWW_AUTHENTICATE,
                &challenge,
            ))
        })
        .await;
        assert!(error.message().contains("not safe"), "{error}");
    }
}

#[tokio::test]
async fn a_registry_that_always_breaks_off_is_given_up() {
    let error = refused(|asked, _| is_blob(asked).then(|| broken_after(Vec::new()))).await;
    assert_eq!(error.code(), ErrorCode::Unavailable);
    let error = refused(|asked, _| is_blob(asked).then(|| full(200, Vec::new()))).await;
    assert!(error.message().contains("ended"), "{error}");
    let error = refused(|asked, _| (asked.path != "/").then(|| status(500))).await;
    assert_eq!(error.code(), ErrorCode::Unavailable);
}

#[tokio::test]
async fn missing_or_private_image_is_a_clear_error() {
    let error = refused(|asked, _| asked.path.contains("manifests").then(|| status(404))).await;
    assert!(error.message().contains("has no `team/tool`"), "{error}");
    let error = refused(|asked, _| asked.path.contains("manifests").then(|| status(403))).await;
    assert!(error.message().contains("denied access to"), "{error}");
    // A registry that answers 401 to its own token is not asked again.
    let error = refused(|asked, _| {
        Some(if asked.path.starts_with("/token") {
            full(200, json!({ "access_token": "x" }).to_string().into_bytes())
        } else {
            with_header(
                status(401),
                header::WWW_AUTHENTICATE,
                r#"Bearer realm="/token""#,
            )
        })
    })
    .await;
    assert!(error.message().contains("denied access to"), "{error}");
}

#[tokio::test]
async fn malformed_documents_are_refused() {
    for body in [
        "",
        "null",
        "[]",
        "{",
        "{}",
        r#"{"manifests":[]}"#,
        r#"{"manifests":[{"digest":"../../etc"}]}"#,
    ] {
        refused(move |asked, _| {
            asked
                .path
                .contains("manifests")
                .then(|| full(200, body.as_bytes().to_vec()))
        })
        .await;
    }
    // An index cannot refer to itself by digest, but a chain of indexes can be endless.
    let mut images = Images::default();
    let mut last = images.image(here(), b"deep");
    for depth in 0..10 {
        let index = json!({ "schemaVersion": 2, "manifests": [last], "depth": depth });
        last = images.part("application/vnd.oci.image.index.v1+json", index.to_string());
    }
    images.tags.insert("1".into(), text(&last["digest"]));
    let error = refused_images(images, |_, _| None).await;
    assert!(error.message().contains("too many"), "{error}");
}

#[tokio::test]
async fn blob_without_size_or_too_large_image_is_not_fetched() {
    let mut images = Images::default();
    let layer = json!({ "digest": format!("sha256:{}", "a".repeat(64)) });
    let config = images.part("config", "{}");
    let manifest = images.part(
        "manifest",
        json!({ "config": config, "layers": [layer] }).to_string(),
    );
    images.tags.insert("1".into(), text(&manifest["digest"]));
    assert!(
        refused_images(images, |_, _| None)
            .await
            .message()
            .contains("no size")
    );

    let scratch = scratch();
    let registry = TestRegistry::honest(Images::tagged("1", &vec![7; 100_000])).await;
    let small = ImageCacheSettings {
        max_image_size: ByteCount(50_000),
        ..ImageCacheSettings::default()
    };
    let error = cache_with(scratch.path(), small)
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap_err();
    assert!(error.message().contains("more than"), "{error}");
    assert!(registry.asked().iter().all(|asked| !is_blob(asked)));
}

#[tokio::test]
async fn an_image_for_other_machines_only_says_which() {
    let mut images = Images::default();
    let foreign = images.image("s390x", b"foreign");
    let index = images.part("index", json!({ "manifests": [foreign] }).to_string());
    images.tags.insert("1".into(), text(&index["digest"]));
    assert!(
        refused_images(images, |_, _| None)
            .await
            .message()
            .contains("linux/s390x")
    );
}

#[tokio::test]
async fn registry_that_sends_nothing_more_is_given_up() {
    let scratch = scratch();
    let images = Images::tagged("1", &vec![7; 100_000]);
    let registry = TestRegistry::with(images, |asked, _| is_blob(asked).then(stalled)).await;
    let settings = ImageCacheSettings {
        max_duration: std::time::Duration::from_millis(300),
        ..ImageCacheSettings::default()
    };
    let error = cache_with(scratch.path(), settings)
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert_eq!(error.field(), Some("image"));
    let pulls = scratch.path().join("images/pulls");
    assert_eq!(fs::read_dir(pulls).unwrap().count(), 0);
}

#[tokio::test]
async fn image_of_too_many_layers_is_not_fetched() {
    let mut images = Images::default();
    let config = images.part("application/vnd.oci.image.config.v1+json", "{}");
    let layer = images.part("application/vnd.oci.image.layer.v1.tar", "x");
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": vec![layer; 513] });
    let manifest = images.part(
        "application/vnd.oci.image.manifest.v1+json",
        manifest.to_string(),
    );
    images
        .tags
        .insert("1".to_owned(), text(&manifest["digest"]));
    let error = refused_images(images, |_, _| None).await;
    assert!(error.chain().contains("513 layers"), "{}", error.chain());
}
