//! Start of a server.

use std::{net::SocketAddr, sync::Arc};

use sandbar_core::{Error, ErrorCode, Result};
use sandbar_e2b::E2b;
use sandbar_host::Host;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    ServerConfig,
    connections::Connections,
    dispatch::Services,
    listener::Acceptor,
    router::{Limits, router},
};
use crate::{
    access::{ConcurrencyLimit, TokenVerifier},
    ingress::Ingress,
    tls::Tls,
};

/// Server that is listening.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl RunningServer {
    /// Returns the address it listens on, with the port that was picked for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when the server was shut down and the last call has ended or was cut off.
    pub async fn finished(self) -> Result<()> {
        self.task
            .await
            .map_err(|source| Error::internal("server task panicked").with_source(source))
    }
}

/// Serves `host` until `shutdown` is cancelled. Returns as soon as the port is open.
pub async fn serve(
    host: Arc<Host>,
    config: ServerConfig,
    shutdown: CancellationToken,
) -> Result<RunningServer> {
    let ServerConfig {
        listen,
        token,
        tls,
        max_calls_per_token,
        max_connections,
        request_timeout,
        drain_timeout,
        slow_reader_timeout,
        connection_timeouts,
        ready_wait,
        e2b_ceilings,
    } = config;
    let tls = tls.map(Tls::new).transpose()?.map(Arc::new);
    if token.is_none() && !listen.ip().is_loopback() {
        return Err(Error::invalid(
            "listen",
            format!("address {listen} is not a loopback address, and no access token is set"),
        )
        .with_hint("set a token, or listen on 127.0.0.1"));
    }
    let verifier = TokenVerifier::new(token.as_ref(), Arc::clone(&host));
    let limits = Limits {
        request_timeout,
        slow_reader_timeout,
    };
    let api = router(host.clone(), verifier.clone(), limits, shutdown.clone())?;
    let e2b = E2b::new(
        host.clone(),
        Arc::new(verifier.clone()),
        (ready_wait, e2b_ceilings),
        shutdown.clone(),
    );
    let ingress = Arc::new(Ingress::new(host, verifier, e2b.clone(), shutdown.clone()));
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|source| cannot_listen(listen, source))?;
    let address = listener
        .local_addr()
        .map_err(|source| cannot_listen(listen, source))?;
    let acceptor = Acceptor {
        services: Services {
            api,
            e2b,
            ingress,
            concurrency: ConcurrencyLimit::new(max_calls_per_token),
        },
        connections: Connections::new(max_connections),
        tls,
        timeouts: connection_timeouts,
        drain_timeout,
        shutdown,
    };
    #[expect(clippy::disallowed_methods, reason = "joined by `RunningServer`")]
    let task = tokio::spawn(acceptor.run(listener));
    Ok(RunningServer { address, task })
}

fn cannot_listen(listen: SocketAddr, source: std::io::Error) -> Error {
    let (code, hint) = match source.kind() {
        std::io::ErrorKind::AddrInUse => (
            ErrorCode::InvalidState,
            "another program listens there; stop it or choose another port with `--listen`",
        ),
        std::io::ErrorKind::PermissionDenied => (
            ErrorCode::PermissionDenied,
            "ports below 1024 need root; choose a higher one",
        ),
        _ => (
            ErrorCode::InvalidArgument,
            "listen on an address of this machine, for example 127.0.0.1:9100",
        ),
    };
    Error::new(code, format!("cannot listen on {listen}"))
        .with_field("listen")
        .with_hint(hint)
        .with_source(source)
}
