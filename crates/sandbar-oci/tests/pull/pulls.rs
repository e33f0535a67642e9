//! Successful pulls.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use hyper::header;
use sandbar_core::ByteCount;
use sandbar_oci::ImageSettings;
use sandbar_oci::{Credentials, ImageCache, ImageCacheSettings, PullProgress};
use sandbar_storage::{ImportSource, StorageConfig, import_base};
use sandbar_testing::tree::scratch;
use serde_json::json;

use crate::{
    image::{Images, here, text},
    server::{Asked, TestRegistry, broken_after, full, honest, redirect, status, with_header},
};

pub(crate) fn cache(directory: &Path) -> ImageCache {
    cache_with(directory, ImageCacheSettings::default())
}

pub(crate) fn cache_with(directory: &Path, settings: ImageCacheSettings) -> ImageCache {
    ImageCache::new(
        directory.join("images"),
        ImageCacheSettings {
            retry_delay: Duration::from_millis(1),
            ..settings
        },
    )
}

fn blobs_of(registry: &TestRegistry) -> Vec<Asked> {
    registry
        .asked()
        .into_iter()
        .filter(|asked| asked.path.contains("/blobs/"))
        .collect()
}

#[tokio::test]
async fn pulled_image_becomes_a_base_with_its_settings() {
    let scratch = scratch();
    let registry = TestRegistry::honest(Images::tagged("1", b"hello")).await;
    let last = std::sync::Mutex::new(PullProgress::default());
    let image = cache(scratch.path())
        .pull(&registry.image(":1"), None, |progress| {
            *last.lock().unwrap() = progress;
        })
        .await
        .unwrap();
    let last = *last.lock().unwrap();
    assert!(last.total > 0 && last.fetched == last.total, "{last:?}");

    let config = StorageConfig {
        directory: scratch.path().join("storage"),
        choice: Some(sandbar_core::StorageKind::LocalDisk),
        zfs: None,
        pool_image_limit: None,
    };
    let storage = sandbar_storage::open(&config).unwrap().storage;
    let source = ImportSource::parse(image.layout().to_str().unwrap()).unwrap();
    let base = import_base(&*storage, &"tool".parse().unwrap(), &source, &|_| {}).unwrap();
    let env = [("A", "1"), ("PATH", "/bin")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(base.env, BTreeMap::from(env));
    let settings = ImageSettings {
        user: Some("app:app".into()),
        working_dir: Some("/srv".into()),
        entrypoint: vec!["/init".into()],
        cmd: vec!["serve".into(), "-v".into()],
    };
    assert_eq!(base.image, Some(settings));
    let file = scratch.path().join("storage/bases/tool/rootfs/file");
    assert_eq!(fs::read_to_string(file).unwrap(), "hello");
    let layout = image.layout().to_owned();
    drop(image);
    assert!(!layout.exists());
}

#[tokio::test]
async fn pull_of_cached_blobs_and_digests_needs_no_registry() {
    let scratch = scratch();
    let cache = cache(scratch.path());
    let registry = TestRegistry::honest(Images::tagged("1", b"hello")).await;
    let digest = cache
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap()
        .digest()
        .to_owned();
    let parts = blobs_of(&registry).len();
    cache
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap();
    assert_eq!(blobs_of(&registry).len(), parts);
    let requests = registry.asked().len();
    let pinned = cache
        .pull(&registry.image(&format!("@{digest}")), None, |_| {})
        .await
        .unwrap();
    assert_eq!(pinned.digest(), digest);
    let probe = |asked: &Asked| asked.path == "/";
    assert!(
        registry.asked()[requests..].iter().all(probe),
        "{:?}",
        registry.asked()
    );
}

#[tokio::test]
async fn manifest_without_index_and_of_docker_type_is_pulled() {
    let scratch = scratch();
    let mut images = Images::default();
    let manifest = images.image(here(), b"alone");
    images
        .tags
        .insert("latest".into(), text(&manifest["digest"]));
    let registry = TestRegistry::honest(images).await;
    let image = cache(scratch.path())
        .pull(&registry.image(""), None, |_| {})
        .await
        .unwrap();
    assert_eq!(image.digest(), text(&manifest["digest"]));
}

#[tokio::test]
async fn broken_connection_is_resumed_at_its_offset() {
    let scratch = scratch();
    let images = Images::tagged("1", &vec![7; 400_000]);
    let (layer, large) = (images.largest(), images.parts[&images.largest()].clone());
    let served = images.clone();
    let registry = TestRegistry::with(images, move |asked, before| {
        let times = before
            .iter()
            .filter(|earlier| earlier.path == asked.path)
            .count();
        let from = usize::try_from(asked.range.unwrap_or(0)).unwrap();
        (asked.path.ends_with(&layer) && times < 8).then(|| {
            let mut response = broken_after(large[from..(from + 30_000).min(large.len())].to_vec());
            if asked.range.is_some() {
                *response.status_mut() = hyper::StatusCode::PARTIAL_CONTENT;
                let range = honest(&served, asked).headers()[header::CONTENT_RANGE].clone();
                response.headers_mut().insert(header::CONTENT_RANGE, range);
            }
            response
        })
    })
    .await;
    cache(scratch.path())
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap();
    let ranges: Vec<_> = blobs_of(&registry)
        .into_iter()
        .filter_map(|asked| asked.range)
        .collect();
    assert!(!ranges.is_empty() && ranges.is_sorted(), "{ranges:?}");
}

#[tokio::test]
async fn pull_from_registry_without_ranges_or_busy_is_retried() {
    let scratch = scratch();
    let images = Images::tagged("1", &vec![7; 200_000]);
    let (layer, large) = (images.largest(), images.parts[&images.largest()].clone());
    let registry = TestRegistry::with(images, move |asked, before| {
        let times = before
            .iter()
            .filter(|earlier| earlier.path == asked.path)
            .count();
        match times {
            0 => Some(status(503)),
            1 => Some(with_header(status(429), header::RETRY_AFTER, "0")),
            2 if asked.path.ends_with(&layer) => Some(broken_after(large[..100_000].to_vec())),
            3 if asked.path.ends_with(&layer) => Some(full(200, large.clone())),
            _ => None,
        }
    })
    .await;
    cache(scratch.path())
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap();
}

#[tokio::test]
async fn partial_blob_is_resumed_and_a_damaged_one_refetched() {
    for left in [true, false] {
        let scratch = scratch();
        let images = Images::tagged("1", &vec![7; 200_000]);
        let (layer, large) = (images.largest(), images.parts[&images.largest()].clone());
        let partial = scratch
            .path()
            .join("images/partial")
            .join(layer.strip_prefix("sha256:").unwrap());
        fs::create_dir_all(partial.parent().unwrap()).unwrap();
        fs::write(
            &partial,
            if left {
                large[..100_000].to_vec()
            } else {
                vec![1; 100_000]
            },
        )
        .unwrap();
        let registry = TestRegistry::honest(images).await;
        cache(scratch.path())
            .pull(&registry.image(":1"), None, |_| {})
            .await
            .unwrap();
        let ranges: Vec<_> = blobs_of(&registry)
            .into_iter()
            .filter(|asked| asked.path.ends_with(&layer))
            .map(|asked| asked.range)
            .collect();
        assert_eq!(
            ranges,
            if left {
                vec![Some(100_000)]
            } else {
                vec![Some(100_000), None]
            }
        );
    }
}

#[tokio::test]
async fn pull_over_tls_needs_a_trusted_authority() {
    let scratch = scratch();
    let registry = TestRegistry::over_tls(Images::tagged("1", b"secret")).await;
    let certificates = scratch.path().join("ca.pem");
    fs::write(&certificates, registry.authority.as_ref().unwrap()).unwrap();
    let trusting = ImageCacheSettings {
        trusted_certificates: Some(certificates),
        ..ImageCacheSettings::default()
    };
    cache_with(scratch.path(), trusting)
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap();

    let other = scratch.path().join("other");
    let error = cache(&other)
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap_err();
    assert_eq!(error.field(), Some("image"));
    assert_eq!(
        fs::read_dir(other.join("images/blobs/sha256"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn token_is_sent_to_the_registry_only() {
    let scratch = scratch();
    let images = Images::tagged("1", b"hello");
    let store = TestRegistry::honest(images.clone()).await;
    let elsewhere = store.address;
    let registry = TestRegistry::with(images, move |asked, _| {
        if asked.path.starts_with("/token") {
            return Some(full(
                200,
                json!({ "token": "let-me-in" }).to_string().into_bytes(),
            ));
        }
        if asked.authorization.as_deref() != Some("Bearer let-me-in") {
            let challenge =
                r#"Bearer realm="/token",service="test",scope="repository:team/tool:pull""#;
            return Some(with_header(
                status(401),
                header::WWW_AUTHENTICATE,
                challenge,
            ));
        }
        asked
            .path
            .contains("/blobs/")
            .then(|| redirect(&format!("http://{elsewhere}{}", asked.path)))
    })
    .await;
    let credentials = Credentials {
        username: "me".into(),
        password: "secret".into(),
    };
    cache(scratch.path())
        .pull(&registry.image(":1"), Some(credentials), |_| {})
        .await
        .unwrap();
    let tokens: Vec<_> = registry
        .asked()
        .into_iter()
        .filter(|asked| asked.path.starts_with("/token"))
        .collect();
    let asked = Asked {
        path: "/token?service=test&scope=repository%3Ateam%2Ftool%3Apull".into(),
        authorization: Some("Basic bWU6c2VjcmV0".into()),
        range: None,
    };
    assert_eq!(tokens, [asked]);
    let redirected = store.asked();
    assert!(!redirected.is_empty() && redirected.iter().all(|asked| asked.authorization.is_none()));
}

#[tokio::test]
async fn basic_credentials_are_sent_when_challenged() {
    let scratch = scratch();
    let registry = TestRegistry::with(Images::tagged("1", b"hello"), |asked, _| {
        let known = asked.authorization.as_deref() == Some("Basic bWU6c2VjcmV0");
        (!known).then(|| {
            with_header(
                status(401),
                header::WWW_AUTHENTICATE,
                "Basic realm=\"test\"",
            )
        })
    })
    .await;
    let cache = cache(scratch.path());
    let refused = cache
        .pull(&registry.image(":1"), None, |_| {})
        .await
        .unwrap_err();
    assert!(refused.hint().unwrap().contains("credentials"));
    let credentials = Credentials {
        username: "me".into(),
        password: "secret".into(),
    };
    cache
        .pull(&registry.image(":1"), Some(credentials), |_| {})
        .await
        .unwrap();
}

#[tokio::test]
async fn cache_beyond_its_limit_keeps_recently_used_blobs() {
    let scratch = scratch();
    let settings = ImageCacheSettings {
        limit: ByteCount(150_000),
        ..ImageCacheSettings::default()
    };
    let cache = cache_with(scratch.path(), settings);
    for content in [1, 2, 3] {
        let registry = TestRegistry::honest(Images::tagged("1", &vec![content; 100_000])).await;
        cache
            .pull(&registry.image(":1"), None, |_| {})
            .await
            .unwrap();
    }
    let kept = fs::read_dir(scratch.path().join("images/blobs/sha256")).unwrap();
    let sizes: u64 = kept
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!((100_000..=150_000).contains(&sizes), "{sizes}");
}

#[tokio::test]
async fn pulls_of_the_same_image_at_once_fetch_each_part_once() {
    let scratch = scratch();
    let cache = cache(scratch.path());
    let registry = TestRegistry::honest(Images::tagged("1", &vec![7; 200_000])).await;
    let reference = registry.image(":1");
    let pulls =
        futures::future::join_all((0..5).map(|_| cache.pull(&reference, None, |_| {}))).await;
    assert!(pulls.iter().all(Result::is_ok), "{pulls:?}");
    let mut parts: Vec<_> = blobs_of(&registry)
        .into_iter()
        .map(|asked| asked.path)
        .collect();
    let fetched = parts.len();
    parts.sort();
    parts.dedup();
    assert_eq!(parts.len(), fetched);
}

#[tokio::test]
async fn cached_blob_changed_on_disk_is_noticed_and_refetched() {
    let scratch = scratch();
    let images = Images::tagged("1", &vec![7; 100_000]);
    let layer = images.largest();
    let registry = TestRegistry::honest(images).await;
    let cache = cache(scratch.path());
    let pull = async || {
        cache
            .pull(&registry.image(":1"), None, |_| {})
            .await
            .unwrap()
    };
    drop(pull().await);
    let blob = scratch
        .path()
        .join("images/blobs/sha256")
        .join(layer.strip_prefix("sha256:").unwrap());
    // The size stays, and so does the time.
    let mut bytes = fs::read(&blob).unwrap();
    bytes[600] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let image = pull().await;
    let rootfs = scratch.path().join("rootfs");
    fs::create_dir(&rootfs).unwrap();
    let control = sandbar_oci::UnpackControl {
        progress: &|_, _| {},
        check: &|| Ok(()),
    };
    let error = sandbar_oci::unpack_layout(image.layout(), &rootfs, control).unwrap_err();
    assert!(error.message().contains(&layer), "{error}");
    image.discard();
    let image = pull().await;
    fs::create_dir(scratch.path().join("again")).unwrap();
    sandbar_oci::unpack_layout(image.layout(), &scratch.path().join("again"), control).unwrap();
}
