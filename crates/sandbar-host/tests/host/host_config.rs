//! The configuration of a host over a storage that a test has made.

use std::time::Duration;

use sandbar_core::RuntimeKind;
use sandbar_host::HostConfig;
use sandbar_testing::StorageFixture;

pub(crate) fn host_config(storage: &StorageFixture, runtime: RuntimeKind) -> HostConfig {
    HostConfig { shutdown_timeout: Duration::from_secs(10), ..sandbar_testing_host::host_config(storage, runtime) }
}
