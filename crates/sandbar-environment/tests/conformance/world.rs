//! Environments of each implementation, and helpers for the cases.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use sandbar_client::Client;
use sandbar_core::{ErrorCode, Resources, RuntimeKind};
use sandbar_environment::{
    EnvironmentConfig, EnvironmentError, EnvironmentProvider, EnvironmentState,
    ExecutionEnvironment, Result, SessionId, ToolCallId, ToolRequest, ToolResponse, WriteOptions,
    local::{LocalConfig, LocalIsolation, LocalProvider},
    native::NativeProvider,
};
use sandbar_host::{Host, HostConfig};
use sandbar_server::{AccessToken, RunningServer, ServerConfig, TlsConfig, serve};
use sandbar_testing::{Backend, StorageFixture, tree::scratch};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Implementation under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Implementation {
    LocalBoxed,
    LocalUnboxed,
    Native,
}

/// One environment with its provider.
pub(crate) struct World {
    pub(crate) provider: Arc<dyn EnvironmentProvider>,
    pub(crate) environment: Arc<dyn ExecutionEnvironment>,
}

impl World {
    /// Runs a test on a new environment, and cleans up even if the test fails.
    pub(crate) fn run(implementation: Implementation, test: impl AsyncFnOnce(&World)) {
        match implementation {
            Implementation::LocalBoxed => {
                run_local(LocalIsolation::Boxed, async |world, _| test(world).await);
            }
            Implementation::LocalUnboxed => {
                run_local(LocalIsolation::Unboxed, async |world, _| test(world).await);
            }
            Implementation::Native => run_native(
                // Time for running work when an environment is destroyed.
                |config| config.pause_drain_timeout = Duration::from_millis(200),
                async |native| {
                    let provider = Arc::new(NativeProvider::new(native.client().await));
                    let world = World::new(provider).await;
                    test(&world).await;
                    world.environment.destroy().await.unwrap();
                },
            ),
        }
    }

    async fn new(provider: Arc<dyn EnvironmentProvider>) -> Self {
        let environment = provider.create(config("first")).await.unwrap();
        Self {
            provider,
            environment,
        }
    }

    pub(crate) async fn tool(&self, name: &str, params: Value) -> Result<ToolResponse> {
        call(&*self.environment, request(name, params)).await
    }

    /// Calls a tool that must succeed and returns its content.
    pub(crate) async fn done(&self, name: &str, params: Value) -> String {
        done(&*self.environment, name, params).await
    }

    pub(crate) async fn bash(&self, command: &str) -> String {
        self.done("bash", json!({ "cmd": command })).await
    }

    /// Returns the paths below `/workspace`.
    pub(crate) async fn listing(&self) -> Vec<String> {
        let entries = self
            .environment
            .list_files(Path::new("/workspace"), 10)
            .await
            .unwrap();
        let entries: Vec<_> = entries.try_collect().await.unwrap();
        entries
            .into_iter()
            .map(|entry| entry.path.to_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) async fn write(&self, path: &str, content: &str) {
        write(&*self.environment, path, content).await.unwrap();
    }

    /// Returns the content of a file; `None` if it does not exist.
    pub(crate) async fn read(&self, path: &str) -> Option<String> {
        read(&*self.environment, path).await
    }

    /// Waits until a file exists.
    pub(crate) async fn appears(&self, path: &str) {
        eventually(path, async || self.read(path).await.is_some()).await;
    }
}

/// Runs a test on a directory, which is passed to it.
pub(crate) fn run_local(isolation: LocalIsolation, test: impl AsyncFnOnce(&World, &Path)) {
    let place = scratch();
    let directory: PathBuf = place.path().join("project");
    std::fs::create_dir(&directory).unwrap();
    tokio().block_on(async {
        let config = LocalConfig::new(&directory).with_isolation(isolation);
        let world = World::new(Arc::new(LocalProvider::open(config).await.unwrap())).await;
        test(&world, &directory).await;
        world.environment.destroy().await.unwrap();
    });
}

/// A host with a server.
pub(crate) struct Native {
    url: String,
    token: String,
    stop: CancellationToken,
}

impl Native {
    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.url, Some(&self.token)).await.unwrap()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Starts the shutdown of the server.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

/// Runs a test on a host with isolation on btrfs; `adjust` changes its configuration.
pub(crate) fn run_native(adjust: impl FnOnce(&mut HostConfig), test: impl AsyncFnOnce(&Native)) {
    run_native_with(adjust, None, test);
}

/// Like [`run_native`], with TLS.
pub(crate) fn run_native_with(
    adjust: impl FnOnce(&mut HostConfig),
    tls: Option<TlsConfig>,
    test: impl AsyncFnOnce(&Native),
) {
    let storage = StorageFixture::new(Backend::BtrfsImage);
    let mut config =
        HostConfig::on_storage(storage.data_dir(), storage.close(), RuntimeKind::Native);
    adjust(&mut config);
    tokio()
        .block_on(async { serve_host_with(Host::start(config).await.unwrap(), tls, test).await });
}

/// Runs a test on a server for a host and stops both.
pub(crate) async fn serve_host(host: Arc<Host>, test: impl AsyncFnOnce(&Native)) {
    serve_host_with(host, None, test).await;
}

async fn serve_host_with(host: Arc<Host>, tls: Option<TlsConfig>, test: impl AsyncFnOnce(&Native)) {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let token = AccessToken::random().unwrap();
    let (revealed, stop) = (token.reveal().to_owned(), CancellationToken::new());
    let config = ServerConfig {
        tls,
        ..ServerConfig::new("127.0.0.1:0".parse().unwrap(), Some(token))
    };
    let server: RunningServer = serve(Arc::clone(&host), config, stop.clone())
        .await
        .unwrap();
    let native = Native {
        url: format!("{scheme}://{}", server.address()),
        token: revealed,
        stop,
    };
    test(&native).await;
    native.stop();
    server.finished().await.unwrap();
    host.shutdown().await.unwrap();
}

pub(crate) fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn config(session: &str) -> EnvironmentConfig {
    let mut config = EnvironmentConfig::new("host", SessionId::new(session).unwrap());
    config
        .options
        .env
        .insert("GREETING".into(), "good morning".into());
    config
}

/// Returns a call with a new id.
pub(crate) fn request(name: &str, params: Value) -> ToolRequest {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let id = format!("call-{}", CALLS.fetch_add(1, Ordering::Relaxed));
    request_as(&id, name, params)
}

pub(crate) fn request_as(id: &str, name: &str, params: Value) -> ToolRequest {
    let Value::Object(params) = params else {
        panic!("parameters are an object")
    };
    ToolRequest {
        tool: name.into(),
        call: ToolCallId::new(id).unwrap(),
        params,
        resources: Resources::default(),
    }
}

pub(crate) async fn call(
    environment: &dyn ExecutionEnvironment,
    request: ToolRequest,
) -> Result<ToolResponse> {
    environment.execute_tool(request, &mut |_| {}).await
}

/// Calls a tool that must succeed and returns its content.
pub(crate) async fn done(
    environment: &dyn ExecutionEnvironment,
    name: &str,
    params: Value,
) -> String {
    let answer = call(environment, request(name, params)).await.unwrap();
    assert!(!answer.is_error, "{name}: {}", answer.content);
    answer.content
}

pub(crate) async fn write(
    environment: &dyn ExecutionEnvironment,
    path: &str,
    content: &str,
) -> Result<u64> {
    let content = stream::iter([Ok(content.to_owned().into())]).boxed();
    environment
        .write_file(Path::new(path), WriteOptions::default(), content)
        .await
}

/// Returns the content of a file; `None` if it does not exist.
pub(crate) async fn read(environment: &dyn ExecutionEnvironment, path: &str) -> Option<String> {
    match environment.read_file(Path::new(path)).await {
        Ok(file) => {
            let pieces: Vec<_> = file.content.try_collect().await.unwrap();
            Some(String::from_utf8(pieces.concat()).unwrap())
        }
        Err(error)
            if error
                .cause()
                .is_some_and(|cause| cause.code() == ErrorCode::FileNotFound) =>
        {
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// Waits until `condition` holds; fails the test after 30 seconds.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out waiting: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Asserts `NotActive` with one of these states.
#[track_caller]
pub(crate) fn not_active<T: std::fmt::Debug>(outcome: Result<T>, states: &[EnvironmentState]) {
    match outcome {
        Err(EnvironmentError::NotActive { state, .. }) if states.contains(&state) => {}
        other => panic!("not `NotActive` but {other:?}"),
    }
}
