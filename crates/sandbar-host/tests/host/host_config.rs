//! The configuration of a host over a storage that a test has made.

use std::time::Duration;

use sandbar_core::RuntimeKind;
use sandbar_host::HostConfig;
use sandbar_testing::StorageFixture;

pub(crate) fn host_config(storage: &StorageFixture, runtime: RuntimeKind) -> HostConfig {
    HostConfig {
        shutdown_timeout: Duration::from_secs(10),
        ..HostConfig::on_storage(storage.data_dir(), storage.close(), runtime)
    }
}
