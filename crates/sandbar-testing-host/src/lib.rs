//! Hosts for tests: what one is told that stands on a storage of the test's own. Never shipped.
//!
//! Apart from `sandbar-testing`, which the crates below the host use as well.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use sandbar_core::RuntimeKind;
use sandbar_host::{HostConfig, RuntimeChoice, StorageChoice};
use sandbar_testing::{Backend, StorageFixture};

/// What a host is told that has this storage to itself. The storage is closed: it only lends its place, and must outlive
/// the host.
pub fn host_config(storage: &StorageFixture, runtime: RuntimeKind) -> HostConfig {
    storage.storage.close().unwrap();
    HostConfig {
        data_dir: storage.scratch().join("data"),
        storage_backend: StorageChoice::Named(storage.storage.kind()),
        container_runtime: RuntimeChoice::Named(runtime),
        sessions_root_dir: Some(storage.config.directory.clone()),
        pool_name: storage.config.zfs.as_ref().map(|zfs| zfs.pool.clone()),
        pool_image_limit: storage.config.pool_image_limit,
        ..HostConfig::default()
    }
}

/// A place on btrfs for a host that isolates its sessions, and what that host is told.
pub fn isolated_host() -> (StorageFixture, HostConfig) {
    let storage = StorageFixture::new(Backend::BtrfsImage);
    let config = host_config(&storage, RuntimeKind::Native);
    (storage, config)
}
