//! A host that is killed and restarted on the same data.

use std::{path::PathBuf, time::Duration};

use rustix::process::Signal;
use sandbar_client::Client;
use sandbar_core::RuntimeKind;
use sandbar_testing::{Backend, StorageFixture, TestServer, TestServerOptions};

/// Data and options of the host.
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
        // Only the directory and the base of the fixture are used; the host opens the storage
        // itself.
        storage.storage.close().unwrap();
        let kind = storage.config.choice.unwrap();
        let mut options = TestServerOptions::new(env!("CARGO_BIN_EXE_sandbar"))
            .argument("--storage")
            .argument(kind.as_str())
            .argument("--runtime")
            .argument(runtime.as_str())
            .variable("SANDBAR_SESSIONS_ROOT_DIR", &storage.config.directory)
            .variable("SANDBAR_POOL_IMAGE_LIMIT", "512M")
            // The janitor runs often.
            .variable("SANDBAR_HEALTH_CHECK_INTERVAL", "100ms");
        if let Some(zfs) = &storage.config.zfs {
            options = options.variable("SANDBAR_POOL_NAME", &zfs.pool);
        }
        let own_loop_devices = usize::from(matches!(
            backend,
            Backend::LocalDiskExt4 | Backend::LocalDiskXfs
        ));
        Self {
            storage,
            options,
            own_loop_devices,
        }
    }

    pub(crate) fn start(&self) -> TestServer {
        TestServer::start_in(&self.options, &self.data_dir())
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.storage.scratch().join("data")
    }

    /// Returns the number of loop devices of the fixture's own image.
    pub(crate) fn own_loop_devices(&self) -> usize {
        self.own_loop_devices
    }

    /// Connects to a running host.
    pub(crate) async fn client(&self, server: &TestServer) -> Client {
        let token = std::fs::read_to_string(server.data_dir().join("token")).unwrap();
        Client::connect(server.url(), Some(token.trim()))
            .await
            .unwrap()
    }

    /// Kills the host after a delay.
    pub(crate) async fn kill_after(&self, server: TestServer, delay: Duration) {
        tokio::time::sleep(delay).await;
        tokio::task::spawn_blocking(move || server.stop_with(Signal::KILL))
            .await
            .unwrap();
    }
}
