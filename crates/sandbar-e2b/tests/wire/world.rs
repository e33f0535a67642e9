//! A host with native boxes on btrfs, a server in front of it, and what it takes to be its client.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use sandbar_core::RuntimeKind;
use sandbar_e2b::api_key;
use sandbar_host::{Host, HostConfig};
use sandbar_server::{AccessToken, ServerConfig, TlsConfig, serve};
use sandbar_testing::{Backend, StorageFixture};
use sandbar_testing_host::{host_config, isolated_host};
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

impl World {
    /// Runs a test in a world of its own, and takes the world down however the test ends.
    pub(crate) fn run(test: impl AsyncFnOnce(&World)) {
        Self::run_with(|_| (), None, test);
    }

    /// As [`run`](Self::run), with another configuration, or TLS on the port.
    pub(crate) fn run_with(
        adjust: impl FnOnce(&mut HostConfig),
        tls: Option<TlsConfig>,
        test: impl AsyncFnOnce(&World),
    ) {
        let (_storage, mut config) = isolated_host();
        adjust(&mut config);
        Self::run_on(config, |server| server.tls = tls, &AccessToken::random().unwrap(), test);
    }

    /// As [`run`](Self::run), with a pool of so many mebibytes.
    pub(crate) fn run_with_pool(mebibytes: u64, test: impl AsyncFnOnce(&World)) {
        let storage = StorageFixture::with_size(Backend::BtrfsImage, mebibytes);
        let config = host_config(&storage, RuntimeKind::Native);
        Self::run_on(config, |_| (), &AccessToken::random().unwrap(), test);
    }

    /// As [`run`](Self::run), where programs of templates are waited for no longer than this.
    pub(crate) fn run_impatient(ready_wait: Duration, test: impl AsyncFnOnce(&World)) {
        let (_storage, config) = isolated_host();
        Self::run_on(config, |server| server.ready_wait = ready_wait, &AccessToken::random().unwrap(), test);
    }

    /// As [`run`](Self::run), and then a second test with another host and server on the same data.
    pub(crate) fn run_and_start_again(test: impl AsyncFnOnce(&World), afterwards: impl AsyncFnOnce(&World)) {
        let (_storage, config) = isolated_host();
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
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let host = Host::start(config).await.unwrap();
            let stop = CancellationToken::new();
            let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), Some(token.clone()));
            adjust(&mut config);
            let server = serve(Arc::clone(&host), config, stop.clone()).await.unwrap();
            let (address, api_key) = (server.address(), api_key(token.reveal()));
            let world = World { host, address, api_key, stop: stop.clone() };
            test(&world).await;
            stop.cancel();
            server.finished().await.unwrap();
            world.host.shutdown().await.unwrap();
        });
    }

    /// A call of the control API with the key of this world.
    pub(crate) async fn control(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.control_with(method, path, &[("x-api-key", &self.api_key)], body).await
    }

    /// A new sandbox from `base`.
    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.sandbox_with(json!({ "templateID": "base", "timeout": 300 })).await
    }

    /// A new sandbox as a body of the control API asks for it.
    pub(crate) async fn sandbox_with(&self, body: Value) -> Sandbox {
        let answer = self.control("POST", "/v2/sandboxes", Some(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        Sandbox::of(self.address, &answer.json())
    }
}
