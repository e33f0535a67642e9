//! The configuration of a host over a storage that a test has made.

use std::time::Duration;

use sandbar_core::RuntimeKind;
use sandbar_host::{HostConfig, RuntimeChoice, StorageChoice};
use sandbar_testing::StorageFixture;

pub(crate) fn host_config(storage: &StorageFixture, runtime: RuntimeKind) -> HostConfig {
    HostConfig {
        data_dir: storage.scratch().join("data"),
        storage_backend: StorageChoice::Named(storage.storage.kind()),
        container_runtime: RuntimeChoice::Named(runtime),
        sessions_root_dir: Some(storage.config.directory.clone()),
        pool_name: storage.config.zfs.as_ref().map(|zfs| zfs.pool.clone()),
        pool_image_limit: storage.config.pool_image_limit,
        shutdown_timeout: Duration::from_secs(10),
        ..HostConfig::default()
    }
}
