//! A host with native boxes on btrfs, a server in front of it, and its client.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use sandbar_core::RuntimeKind;
use sandbar_e2b::{SandboxCeilings, api_key};
use sandbar_host::{Host, HostConfig};
use sandbar_server::{AccessToken, ServerConfig, TlsConfig, serve};
use sandbar_testing::{Backend, StorageFixture};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::client::{Answer, Sandbox};

pub(crate) struct World {
    pub(crate) host: Arc<Host>,
    pub(crate) address: SocketAddr,
    pub(crate) api_key: String,
    /// Stops the server.
    pub(crate) stop: CancellationToken,
}

/// Returns the configuration of a host that runs native boxes on this storage.
fn native_host(storage: &StorageFixture) -> HostConfig {
    HostConfig::on_storage(storage.data_dir(), storage.close(), RuntimeKind::Native)
}

impl World {
    /// Runs a test in a world of its own, which is shut down however the test ends.
    pub(crate) fn run(test: impl AsyncFnOnce(&World)) {
        Self::run_with(|_| (), None, test);
    }

    /// As [`run`](Self::run), with another configuration, or TLS on the port.
    pub(crate) fn run_with(
        adjust: impl FnOnce(&mut HostConfig),
        tls: Option<TlsConfig>,
        test: impl AsyncFnOnce(&World),
    ) {
        let storage = StorageFixture::new(Backend::BtrfsImage);
        let mut config = native_host(&storage);
        adjust(&mut config);
        Self::run_on(
            config,
            |server| server.tls = tls,
            &AccessToken::random().unwrap(),
            test,
        );
    }

    /// As [`run`](Self::run), with this limit of concurrent calls per token.
    pub(crate) fn run_limited(max_calls_per_token: usize, test: impl AsyncFnOnce(&World)) {
        let storage = StorageFixture::new(Backend::BtrfsImage);
        let config = native_host(&storage);
        Self::run_on(
            config,
            |server| server.max_calls_per_token = max_calls_per_token,
            &AccessToken::random().unwrap(),
            test,
        );
    }

    /// As [`run`](Self::run), with these ceilings of the operator.
    pub(crate) fn run_with_ceilings(ceilings: SandboxCeilings, test: impl AsyncFnOnce(&World)) {
        let storage = StorageFixture::new(Backend::BtrfsImage);
        let config = native_host(&storage);
        Self::run_on(
            config,
            |server| server.e2b_ceilings = ceilings,
            &AccessToken::random().unwrap(),
            test,
        );
    }

    /// As [`run`](Self::run), with a storage pool of this size in MiB.
    pub(crate) fn run_with_pool(mebibytes: u64, test: impl AsyncFnOnce(&World)) {
        let storage = StorageFixture::with_size(Backend::BtrfsImage, mebibytes);
        let config = native_host(&storage);
        Self::run_on(config, |_| (), &AccessToken::random().unwrap(), test);
    }

    /// As [`run`](Self::run), with this ready timeout for start commands.
    pub(crate) fn run_impatient(ready_wait: Duration, test: impl AsyncFnOnce(&World)) {
        let storage = StorageFixture::new(Backend::BtrfsImage);
        let config = native_host(&storage);
        Self::run_on(
            config,
            |server| server.ready_wait = ready_wait,
            &AccessToken::random().unwrap(),
            test,
        );
    }

    /// As [`run`](Self::run), and then a second test with another host and server on the same data.
    pub(crate) fn run_and_start_again(
        test: impl AsyncFnOnce(&World),
        afterwards: impl AsyncFnOnce(&World),
    ) {
        let storage = StorageFixture::new(Backend::BtrfsImage);
        let config = native_host(&storage);
        let token = AccessToken::random().unwrap();
        Self::run_on(config.clone(), |_| (), &token, test);
        Self::run_on(config, |_| (), &token, afterwards);
    }

    fn run_on(
        config: HostConfig,
        adjust: impl FnOnce(&mut ServerConfig),
        token: &AccessToken,
        test: impl AsyncFnOnce(&World),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let host = Host::start(config).await.unwrap();
            let stop = CancellationToken::new();
            let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), Some(token.clone()));
            adjust(&mut config);
            let server = serve(Arc::clone(&host), config, stop.clone())
                .await
                .unwrap();
            let (address, api_key) = (server.address(), api_key(token.reveal()));
            let world = World {
                host,
                address,
                api_key,
                stop: stop.clone(),
            };
            test(&world).await;
            stop.cancel();
            server.finished().await.unwrap();
            world.host.shutdown().await.unwrap();
        });
    }

    /// Calls the control API with the key of this world.
    pub(crate) async fn control(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.control_with(method, path, &[("x-api-key", &self.api_key)], body)
            .await
    }

    /// Creates a sandbox from `base`.
    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.sandbox_with(json!({ "templateID": "base", "timeout": 300 }))
            .await
    }

    /// Creates a sandbox from a request body of the control API.
    pub(crate) async fn sandbox_with(&self, body: Value) -> Sandbox {
        let answer = self.control("POST", "/v2/sandboxes", Some(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        Sandbox::of(self.address, &answer.json())
    }
}
