//! The port: accepting connections, and letting go of them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto::Builder,
        graceful::{GracefulShutdown, Watcher},
    },
};
use sandbar_core::{AccessToken, Error, ErrorCode, Result};
use sandbar_e2b::E2b;
use sandbar_host::Host;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::{io::InspectReader, sync::CancellationToken};

use crate::{
    access::{Gatekeeper, Peer, Places},
    connection::{Connection, OverTcp},
    entrance::{Doors, Entrance, Transport},
    ingress::Ingress,
    patience::{Arrivals, HeadTimer, Patience},
    router::{Bounds, router},
    tls::{Tls, TlsConfig, shake_hands},
};

/// What one HTTP/2 stream may have under way before its reader takes it.
const STREAM_WINDOW: u32 = 1 << 20;

/// What all streams of a connection may have under way: never the bottleneck, or one command that does not read its
/// stdin would hold back every other call on the connection.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// The largest HTTP/2 frame that is taken. The Python SDK 2.30 copies the rest of an upload for every frame it sends.
const MAX_FRAME: u32 = STREAM_WINDOW;

/// How long a silent HTTP/2 connection is trusted: a caller whose machine is gone must not keep a command running.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Between attempts to accept when the process has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where and for whom to serve.
#[derive(Debug)]
pub struct ServerConfig {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The token that may do everything, beside those the host was asked to make. Without it everybody who reaches the
    /// port may do everything; only a loopback address is served so.
    pub token: Option<AccessToken>,
    /// Without it everybody on the way can read and change what is said.
    pub tls: Option<TlsConfig>,
    /// Calls one token may have under way; a stream counts until it ends. 0 is any number.
    pub max_calls_per_token: usize,
    /// How long a unary call without a deadline of its own may take. Zero is any time.
    pub request_timeout: Duration,
    /// How long calls may go on after shutdown began.
    pub drain_timeout: Duration,
    /// How long the reader of a stream may take nothing before the stream is ended, with the command it belongs to.
    pub slow_reader_timeout: Duration,
    /// How long connections may say nothing.
    pub patience: Patience,
    /// How long an E2B client that makes a sandbox waits for the program of its template.
    pub ready_wait: Duration,
}

impl ServerConfig {
    /// `slow_reader_timeout` when nobody says otherwise.
    pub const SLOW_READER_TIMEOUT: Duration = Duration::from_mins(5);
    pub const MAX_CALLS_PER_TOKEN: usize = 512;
    pub const REQUEST_TIMEOUT: Duration = Duration::from_mins(10);

    pub fn new(listen: SocketAddr, token: Option<AccessToken>) -> Self {
        Self {
            listen,
            token,
            tls: None,
            max_calls_per_token: Self::MAX_CALLS_PER_TOKEN,
            request_timeout: Self::REQUEST_TIMEOUT,
            drain_timeout: Duration::from_secs(10),
            slow_reader_timeout: Self::SLOW_READER_TIMEOUT,
            patience: Patience::default(),
            ready_wait: E2b::READY_WAIT,
        }
    }
}

/// A server that is listening.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl RunningServer {
    /// The address it really listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when the server was shut down and the last call has ended or was cut off.
    pub async fn finished(self) -> Result<()> {
        self.task.await.map_err(|source| Error::internal("the server broke off").with_source(source))
    }
}

/// Serves `host` until `shutdown` is cancelled. Returns as soon as the port is open.
pub async fn serve(host: Arc<Host>, config: ServerConfig, shutdown: CancellationToken) -> Result<RunningServer> {
    let ServerConfig {
        listen,
        token,
        tls,
        max_calls_per_token,
        request_timeout,
        drain_timeout,
        slow_reader_timeout,
        patience,
        ready_wait,
    } = config;
    let tls = tls.map(Tls::new).transpose()?.map(Arc::new);
    if token.is_none() && !listen.ip().is_loopback() {
        return Err(Error::invalid("listen", format!("serving {listen} without a token would open it to everybody"))
            .with_hint("give it a token, or listen on 127.0.0.1"));
    }
    let gatekeeper = Gatekeeper::new(token.as_ref(), Arc::clone(&host));
    let bounds = Bounds {
        gatekeeper: gatekeeper.clone(),
        places: Places::new(max_calls_per_token),
        request_timeout,
        slow_reader_timeout,
    };
    let router = router(host.clone(), bounds, shutdown.clone())?;
    let e2b = E2b::new(host.clone(), Arc::new(gatekeeper.clone()), ready_wait, shutdown.clone());
    let ingress = Arc::new(Ingress { host, gatekeeper, e2b: e2b.clone(), shutdown: shutdown.clone() });
    let reception = Reception { doors: Doors { api: router, e2b, ingress }, tls, patience };
    let listener = TcpListener::bind(listen).await.map_err(|source| cannot_listen(listen, source))?;
    let address = listener.local_addr().map_err(|source| cannot_listen(listen, source))?;
    let task = tokio::spawn(accept(listener, reception, shutdown, drain_timeout));
    Ok(RunningServer { address, task })
}

fn cannot_listen(listen: SocketAddr, source: std::io::Error) -> Error {
    let (code, hint) = match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            (ErrorCode::InvalidState, "another program listens there; stop it or choose another port with `--listen`")
        }
        std::io::ErrorKind::PermissionDenied => {
            (ErrorCode::PermissionDenied, "ports below 1024 need root; choose a higher one")
        }
        _ => (ErrorCode::InvalidArgument, "listen on an address of this machine, for example 127.0.0.1:9100"),
    };
    Error::new(code, format!("cannot listen on {listen}")).with_field("listen").with_hint(hint).with_source(source)
}

/// How connections are received.
struct Reception {
    doors: Doors,
    tls: Option<Arc<Tls>>,
    patience: Patience,
}

async fn accept(listener: TcpListener, reception: Reception, shutdown: CancellationToken, drain_timeout: Duration) {
    let Reception { doors, tls, patience } = reception;
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let transport = if tls.is_some() { Transport::Tls } else { Transport::Plain };
                    let entrance = Entrance::new(&doors, Peer(peer.ip()), transport);
                    let (tls, watcher, shutdown) = (tls.clone(), graceful.watcher(), shutdown.clone());
                    connections.spawn(welcome(stream, tls, patience, entrance, watcher, shutdown));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    if timeout(drain_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "calls still ran at the end of the drain time and were cut off"
        );
    }
    connections.shutdown().await;
}

/// Everything that happens on one connection.
async fn welcome(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    patience: Patience,
    entrance: Entrance,
    watcher: Watcher,
    shutdown: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "could not switch off Nagle's algorithm");
    }
    let Some(tls) = tls else { return converse(stream, patience, entrance, watcher).await };
    let stream = tokio::select! {
        // Nobody has asked for anything yet.
        () = shutdown.cancelled() => return,
        stream = shake_hands(stream, tls.current(), patience.handshake) => stream,
    };
    if let Some(stream) = stream {
        converse(stream, patience, entrance, watcher).await;
    }
}

async fn converse(stream: impl OverTcp, patience: Patience, entrance: Entrance, watcher: Watcher) {
    let arrivals = Arc::new(Arrivals::default());
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(HeadTimer::new(patience, Arc::clone(&arrivals))).header_read_timeout(patience.idle);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    let counted = Arc::clone(&arrivals);
    let stream = Connection::new(stream, entrance.reset_on_close());
    let stream = InspectReader::new(stream, move |bytes: &[u8]| counted.count(bytes));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), entrance);
    tokio::select! {
        // Whatever went wrong on one connection is its caller's to see.
        ended = watcher.watch(connection.into_owned()) => if let Err(error) = ended {
            tracing::debug!(error, "a connection ended early");
        },
        () = arrivals.stay_away(patience) => tracing::debug!("a connection did not say what it wants"),
    }
}
