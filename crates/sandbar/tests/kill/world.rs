//! A host that is killed and started again on the same data.

use std::time::Duration;

use rustix::process::Signal;
use sandbar_client::Client;
use sandbar_testing::{Backend, StorageFixture, TestServer, TestServerOptions};

/// Where the host keeps its data, and how to start it.
pub(crate) struct World {
    pub(crate) storage: StorageFixture,
    options: TestServerOptions,
}

impl World {
    pub(crate) fn new(backend: Backend) -> Self {
        let storage = StorageFixture::new(backend);
        // The fixture only lends its place and its base; the host opens it by itself.
        storage.storage.close().unwrap();
        let kind = storage.config.choice.unwrap();
        let mut options = TestServerOptions::new(env!("CARGO_BIN_EXE_sandbar"))
            .argument("--storage")
            .argument(kind.as_str())
            .argument("--runtime")
            .argument("none")
            .variable("SANDBAR_SESSIONS_ROOT_DIR", &storage.config.directory)
            .variable("SANDBAR_POOL_IMAGE_LIMIT", "512M");
        if let Some(zfs) = &storage.config.zfs {
            options = options.variable("SANDBAR_POOL_NAME", &zfs.pool);
        }
        Self { storage, options }
    }

    pub(crate) fn start(&self) -> TestServer {
        TestServer::start_in(&self.options, &self.storage.scratch().join("data"))
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
