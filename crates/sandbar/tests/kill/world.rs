//! A host that is killed and started again on the same data.

use std::{path::PathBuf, time::Duration};

use rustix::process::Signal;
use sandbar_client::Client;
use sandbar_core::RuntimeKind;
use sandbar_testing::{Backend, StorageFixture, TestServer, TestServerOptions};

/// Where the host keeps its data, and how to start it.
pub(crate) struct World {
    pub(crate) storage: StorageFixture,
    options: TestServerOptions,
    own_loop_devices: usize,
}

impl World {
    pub(crate) fn new(backend: Backend) -> Self {
        Self::with_runtime(backend, RuntimeKind::None)
    }

    pub(crate) fn with_runtime(backend: Backend, runtime: RuntimeKind) -> Self {
        let storage = StorageFixture::new(backend);
        // The fixture only lends its place and its base; the host opens it by itself.
        storage.storage.close().unwrap();
        let kind = storage.config.choice.unwrap();
        let mut options = TestServerOptions::new(env!("CARGO_BIN_EXE_sandbar"))
            .argument("--storage")
            .argument(kind.as_str())
            .argument("--runtime")
            .argument(runtime.as_str())
            .variable("SANDBAR_SESSIONS_ROOT_DIR", &storage.config.directory)
            .variable("SANDBAR_POOL_IMAGE_LIMIT", "512M")
            // The janitor takes part.
            .variable("SANDBAR_HEALTH_CHECK_INTERVAL", "100ms");
        if let Some(zfs) = &storage.config.zfs {
            options = options.variable("SANDBAR_POOL_NAME", &zfs.pool);
        }
        let own_loop_devices = usize::from(matches!(backend, Backend::LocalDiskExt4 | Backend::LocalDiskXfs));
        Self { storage, options, own_loop_devices }
    }

    pub(crate) fn start(&self) -> TestServer {
        TestServer::start_in(&self.options, &self.data_dir())
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.storage.scratch().join("data")
    }

    /// Loop devices that are there without a host: those of the fixture's own image.
    pub(crate) fn own_loop_devices(&self) -> usize {
        self.own_loop_devices
    }

    /// A client of a running host.
    pub(crate) async fn client(&self, server: &TestServer) -> Client {
        let token = std::fs::read_to_string(server.data_dir().join("token")).unwrap();
        Client::connect(server.url(), Some(token.trim())).await.unwrap()
    }

    /// Kills the host after a while, with whatever it is doing.
    pub(crate) async fn kill_after(&self, server: TestServer, delay: Duration) {
        tokio::time::sleep(delay).await;
        tokio::task::spawn_blocking(move || server.stop_with(Signal::KILL)).await.unwrap();
    }
}
