//! Fixture: a host with a small base, its server, and clients.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use sandbar_client::{Client, RemoteCommand, WireProtocol};
use sandbar_core::{
    BaseName, ExecEvent, ExecSpec, ExitStatus, RuntimeKind, SessionInfo, SessionSpec,
};
use sandbar_host::{Host, HostConfig};
use sandbar_server::{AccessToken, RunningServer, ServerConfig, TlsConfig, serve};
use sandbar_storage::ImportSource;
use sandbar_testing::{Backend, ScratchDirectory, StorageFixture, make_small_root, private_mounts};
use tokio_util::sync::CancellationToken;

pub(crate) const PROTOCOLS: [WireProtocol; 4] = [
    WireProtocol::Connect,
    WireProtocol::ConnectJson,
    WireProtocol::Grpc,
    WireProtocol::GrpcWeb,
];

pub(crate) struct World {
    pub(crate) host: Arc<Host>,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) stop: CancellationToken,
}

impl World {
    /// Runs a test in a new world, and stops it however the test ends.
    pub(crate) fn run(test: impl AsyncFnOnce(&World)) {
        Self::run_with(|_, _| (), test);
    }

    /// Like [`run`](Self::run), with another configuration, which may use the directory.
    pub(crate) fn run_with(
        adjust: impl FnOnce(&Path, &mut HostConfig),
        test: impl AsyncFnOnce(&World),
    ) {
        private_mounts();
        let directory = ScratchDirectory::new();
        Self::run_in(
            async || World::start(directory.path(), None, adjust).await,
            test,
        );
    }

    /// Like [`run`](Self::run), with a host whose storage is considered full. It has no base.
    pub(crate) fn run_full(test: impl AsyncFnOnce(&World)) {
        private_mounts();
        let directory = ScratchDirectory::new();
        let config = HostConfig {
            pool_space_warn_threshold: 0.0,
            pool_space_crit_threshold: 0.0,
            ..Self::config(directory.path())
        };
        Self::run_in(
            async || World::serve(Host::start(config).await.unwrap(), None).await,
            test,
        );
    }

    /// Like [`run`](Self::run), with TLS.
    pub(crate) fn run_tls(tls: TlsConfig, test: impl AsyncFnOnce(&World)) {
        private_mounts();
        let directory = ScratchDirectory::new();
        Self::run_in(
            async || World::start(directory.path(), Some(tls), |_, _| ()).await,
            test,
        );
    }

    /// Like [`run`](Self::run), followed by a second test with a new host and server on the same
    /// data.
    pub(crate) fn run_and_start_again(
        test: impl AsyncFnOnce(&World),
        afterwards: impl AsyncFnOnce(&World),
    ) {
        private_mounts();
        let directory = ScratchDirectory::new();
        Self::run_in(
            async || World::start(directory.path(), None, |_, _| ()).await,
            test,
        );
        let again = async || {
            World::serve(
                Host::start(Self::config(directory.path())).await.unwrap(),
                None,
            )
            .await
        };
        Self::run_in(again, afterwards);
    }

    /// Like [`run`](Self::run), with this slow-reader timeout.
    pub(crate) fn run_with_slow_reader_timeout(timeout: Duration, test: impl AsyncFnOnce(&World)) {
        Self::run(async |world| {
            let stop = CancellationToken::new();
            let listen = "127.0.0.1:0".parse().unwrap();
            let config = ServerConfig {
                slow_reader_timeout: timeout,
                ..ServerConfig::new(listen, None)
            };
            let server = serve(world.host.clone(), config, stop.clone())
                .await
                .unwrap();
            let (host, token) = (world.host.clone(), world.token.clone());
            let impatient = World {
                host,
                address: server.address(),
                token,
                stop,
            };
            test(&impatient).await;
            impatient.stop.cancel();
            server.finished().await.unwrap();
        });
    }

    fn run_in(start: impl AsyncFnOnce() -> (World, RunningServer), test: impl AsyncFnOnce(&World)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (world, server) = start().await;
            test(&world).await;
            world.stop.cancel();
            server.finished().await.unwrap();
            world.host.shutdown().await.unwrap();
        });
    }

    /// Like [`run`](Self::run), with isolated sessions on the base `host`.
    pub(crate) fn run_isolated(test: impl AsyncFnOnce(&World)) {
        Self::run_isolated_with(None, test);
    }

    /// Like [`run_isolated`](Self::run_isolated), with or without TLS.
    pub(crate) fn run_isolated_with(tls: Option<TlsConfig>, test: impl AsyncFnOnce(&World)) {
        let storage = StorageFixture::new(Backend::BtrfsImage);
        let config =
            HostConfig::on_storage(storage.data_dir(), storage.close(), RuntimeKind::Native);
        Self::run_in(
            async || World::serve(Host::start(config).await.unwrap(), tls).await,
            test,
        );
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
        world
            .host
            .import_base(&small, &ImportSource::Directory(source), |_| {})
            .await
            .unwrap();
        (world, server)
    }

    async fn serve(host: Arc<Host>, tls: Option<TlsConfig>) -> (Self, RunningServer) {
        let token = AccessToken::random().unwrap();
        let revealed = token.reveal().to_owned();
        let stop = CancellationToken::new();
        let config = ServerConfig {
            tls,
            ..ServerConfig::new("127.0.0.1:0".parse().unwrap(), Some(token))
        };
        let server = serve(host.clone(), config, stop.clone()).await.unwrap();
        (
            Self {
                host,
                address: server.address(),
                token: revealed,
                stop,
            },
            server,
        )
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn client(&self, protocol: WireProtocol) -> Client {
        Client::connect_with(&self.url(), Some(&self.token), protocol)
            .await
            .unwrap()
    }

    /// Creates a session from the small base.
    pub(crate) async fn session(&self, client: &Client) -> SessionInfo {
        client
            .create_session(SessionSpec::new(BaseName::new("small").unwrap()))
            .await
            .unwrap()
    }
}

/// Returns a shell command.
pub(crate) fn shell(script: &str) -> ExecSpec {
    ExecSpec::new(["/bin/sh", "-c", script])
}

/// Result of a command.
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
        Self {
            stdout,
            stderr,
            status: status.expect("the command ended"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}
