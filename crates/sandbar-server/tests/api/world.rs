//! A host with a small base, a server in front of it, and clients.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use sandbar_client::{Client, RemoteCommand, WireProtocol};
use sandbar_core::{BaseName, ExecEvent, ExecSpec, ExitStatus, SessionInfo, SessionSpec};
use sandbar_host::{Host, HostConfig};
use sandbar_server::{AccessToken, RunningServer, ServerConfig, TlsConfig, serve};
use sandbar_storage::ImportSource;
use sandbar_testing::{ScratchDirectory, make_small_root, private_mounts};
use sandbar_testing_host::isolated_host;
use tokio_util::sync::CancellationToken;

pub(crate) const PROTOCOLS: [WireProtocol; 4] =
    [WireProtocol::Connect, WireProtocol::ConnectJson, WireProtocol::Grpc, WireProtocol::GrpcWeb];

pub(crate) struct World {
    pub(crate) host: Arc<Host>,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) stop: CancellationToken,
}

impl World {
    /// Runs a test in a world of its own, and takes the world down however the test ends.
    pub(crate) fn run(test: impl AsyncFnOnce(&World)) {
        Self::run_with(|_, _| (), test);
    }

    /// As [`run`](Self::run), with another configuration; its directory is for whatever that needs.
    pub(crate) fn run_with(adjust: impl FnOnce(&Path, &mut HostConfig), test: impl AsyncFnOnce(&World)) {
        private_mounts();
        let directory = ScratchDirectory::new();
        Self::run_in(async || World::start(directory.path(), None, adjust).await, test);
    }

    /// As [`run`](Self::run), with a host whose storage counts as full. It has no base.
    pub(crate) fn run_full(test: impl AsyncFnOnce(&World)) {
        private_mounts();
        let directory = ScratchDirectory::new();
        let config = HostConfig {
            pool_space_warn_threshold: 0.0,
            pool_space_crit_threshold: 0.0,
            ..Self::config(directory.path())
        };
        Self::run_in(async || World::serve(Host::start(config).await.unwrap(), None).await, test);
    }

    /// As [`run`](Self::run), with TLS on the port.
    pub(crate) fn run_tls(tls: TlsConfig, test: impl AsyncFnOnce(&World)) {
        private_mounts();
        let directory = ScratchDirectory::new();
        Self::run_in(async || World::start(directory.path(), Some(tls), |_, _| ()).await, test);
    }

    /// As [`run`](Self::run), and then a second test with another host and server on the same data.
    pub(crate) fn run_and_start_again(test: impl AsyncFnOnce(&World), afterwards: impl AsyncFnOnce(&World)) {
        private_mounts();
        let directory = ScratchDirectory::new();
        Self::run_in(async || World::start(directory.path(), None, |_, _| ()).await, test);
        let again = async || World::serve(Host::start(Self::config(directory.path())).await.unwrap(), None).await;
        Self::run_in(again, afterwards);
    }

    /// As [`run`](Self::run), with a server that has so much patience with readers of streams.
    pub(crate) fn run_impatient(patience: Duration, test: impl AsyncFnOnce(&World)) {
        Self::run(async |world| {
            let stop = CancellationToken::new();
            let listen = "127.0.0.1:0".parse().unwrap();
            let config = ServerConfig { slow_reader_timeout: patience, ..ServerConfig::new(listen, None) };
            let server = serve(world.host.clone(), config, stop.clone()).await.unwrap();
            let (host, token) = (world.host.clone(), world.token.clone());
            let impatient = World { host, address: server.address(), token, stop };
            test(&impatient).await;
            impatient.stop.cancel();
            server.finished().await.unwrap();
        });
    }

    fn run_in(start: impl AsyncFnOnce() -> (World, RunningServer), test: impl AsyncFnOnce(&World)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let (world, server) = start().await;
            test(&world).await;
            world.stop.cancel();
            server.finished().await.unwrap();
            world.host.shutdown().await.unwrap();
        });
    }

    /// As [`run`](Self::run), with sessions that are isolated and stand on this machine's own programs.
    pub(crate) fn run_isolated(test: impl AsyncFnOnce(&World)) {
        Self::run_isolated_with(None, test);
    }

    /// The same, with or without TLS on the port.
    pub(crate) fn run_isolated_with(tls: Option<TlsConfig>, test: impl AsyncFnOnce(&World)) {
        let (_storage, config) = isolated_host();
        Self::run_in(async || World::serve(Host::start(config).await.unwrap(), tls).await, test);
    }

    fn config(directory: &Path) -> HostConfig {
        HostConfig {
            data_dir: directory.join("data"),
            storage_backend: "local-disk".parse().unwrap(),
            container_runtime: "none".parse().unwrap(),
            ..HostConfig::default()
        }
    }

    async fn start(
        directory: &Path,
        tls: Option<TlsConfig>,
        adjust: impl FnOnce(&Path, &mut HostConfig),
    ) -> (Self, RunningServer) {
        let source = directory.join("source");
        make_small_root(&source);
        let mut config = Self::config(directory);
        adjust(directory, &mut config);
        let (world, server) = Self::serve(Host::start(config).await.unwrap(), tls).await;
        let small = BaseName::new("small").unwrap();
        world.host.import_base(&small, &ImportSource::Directory(source), |_| {}).await.unwrap();
        (world, server)
    }

    async fn serve(host: Arc<Host>, tls: Option<TlsConfig>) -> (Self, RunningServer) {
        let token = AccessToken::random().unwrap();
        let revealed = token.reveal().to_owned();
        let stop = CancellationToken::new();
        let config = ServerConfig { tls, ..ServerConfig::new("127.0.0.1:0".parse().unwrap(), Some(token)) };
        let server = serve(host.clone(), config, stop.clone()).await.unwrap();
        (Self { host, address: server.address(), token: revealed, stop }, server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn client(&self, protocol: WireProtocol) -> Client {
        Client::connect_with(&self.url(), Some(&self.token), protocol).await.unwrap()
    }

    /// A new session on the small base.
    pub(crate) async fn session(&self, client: &Client) -> SessionInfo {
        client.create_session(SessionSpec::new(BaseName::new("small").unwrap())).await.unwrap()
    }
}

/// A shell command.
pub(crate) fn shell(script: &str) -> ExecSpec {
    ExecSpec::new(["/bin/sh", "-c", script])
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) status: ExitStatus,
}

impl Ended {
    pub(crate) async fn of(mut command: RemoteCommand) -> Self {
        let (mut stdout, mut stderr, mut status) = (Vec::new(), Vec::new(), None);
        while let Some(event) = command.next_event().await.unwrap() {
            assert!(status.is_none(), "an event after the end: {event:?}");
            match event {
                ExecEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                ExecEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                ExecEvent::Exited(exit) => status = Some(exit),
            }
        }
        Self { stdout, stderr, status: status.expect("the command ended") }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}
