//! Accept loop and HTTP connections.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto::Builder,
        graceful::{GracefulShutdown, Watcher},
    },
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::{io::InspectReader, sync::CancellationToken};

use super::{
    ConnectionTimeouts,
    connection::{Connection, OverTcp},
    connections::{Admitted, Connections},
    dispatch::{Dispatch, Services, Transport},
    fair_body::InTurns,
    timeouts::{HeadTimer, ReceivedBytes},
};
use crate::{
    access::Peer,
    tls::{Tls, accept_tls},
};

/// Flow-control window of one HTTP/2 stream.
const STREAM_WINDOW: u32 = 1 << 20;

/// Flow-control window of an HTTP/2 connection, at its maximum: a command that does not read its
/// stdin must exhaust its own stream window only, and not block the other calls of the connection.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Largest HTTP/2 frame accepted. The Python SDK 2.30 copies the rest of an upload for every frame
/// it sends, so small frames make uploads quadratic.
const MAX_FRAME: u32 = STREAM_WINDOW;

/// Interval of HTTP/2 pings on an idle connection, and the time to answer one. A client whose
/// machine is gone must not keep a command running.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Delay before the next `accept` after one failed, which happens when the process is out of file
/// descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Interval of log entries about refused connections.
const REFUSAL_REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// Accepts connections, and owns the tasks that serve them.
pub(super) struct Acceptor {
    pub(super) services: Services,
    pub(super) connections: Connections,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) timeouts: ConnectionTimeouts,
    pub(super) drain_timeout: Duration,
    pub(super) shutdown: CancellationToken,
}

impl Acceptor {
    /// Serves connections until shutdown, then drains them. All tasks have ended when it returns.
    pub(super) async fn run(self, listener: TcpListener) {
        let transport = if self.tls.is_some() {
            Transport::Tls
        } else {
            Transport::Plain
        };
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut refused = Refused::default();
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let Some(admitted) = self.connections.admit(peer.ip()) else {
                            refused.record(peer.ip());
                            continue;
                        };
                        let registration = Arc::clone(&admitted.registration);
                        let dispatch =
                            Dispatch::new(&self.services, Peer(peer.ip()), transport, registration);
                        let (tls, watcher) = (self.tls.clone(), graceful.watcher());
                        let shutdown = self.shutdown.clone();
                        connections.spawn(serve_connection(
                            stream, tls, self.timeouts, admitted, dispatch, watcher, shutdown,
                        ));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a connection");
                        sleep(ACCEPT_RETRY_DELAY).await;
                    }
                },
            }
        }
        drop(listener);
        if timeout(self.drain_timeout, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!(
                connections = connections.len(),
                "calls still ran at the end of the drain timeout and were cut off"
            );
        }
        connections.shutdown().await;
        self.services.e2b.closed().await;
        self.services.ingress.stop().await;
    }
}

/// Connections refused at the limit.
#[derive(Debug, Default)]
struct Refused {
    reported: Option<Instant>,
    since_report: u64,
}

impl Refused {
    /// Counts a refused connection, and reports the count from time to time.
    fn record(&mut self, peer: IpAddr) {
        self.since_report += 1;
        if self
            .reported
            .is_some_and(|reported| reported.elapsed() < REFUSAL_REPORT_INTERVAL)
        {
            return;
        }
        tracing::warn!(
            %peer,
            refused = self.since_report,
            "connections refused: limit `max_connections`, or the share of this peer, is reached"
        );
        *self = Self {
            reported: Some(Instant::now()),
            since_report: 0,
        };
    }
}

/// Serves one connection, after the TLS handshake where TLS is configured.
async fn serve_connection(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    timeouts: ConnectionTimeouts,
    admitted: Admitted,
    dispatch: Dispatch,
    watcher: Watcher,
    shutdown: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "could not switch off Nagle's algorithm");
    }
    let Some(tls) = tls else {
        return serve_http(stream, timeouts, admitted, dispatch, watcher).await;
    };
    let stream = tokio::select! {
        // No request has arrived yet, so there is nothing to drain.
        () = shutdown.cancelled() => return,
        () = admitted.closed(timeouts) => return,
        stream = accept_tls(stream, tls.current(), timeouts.handshake) => stream,
    };
    if let Some(stream) = stream {
        serve_http(stream, timeouts, admitted, dispatch, watcher).await;
    }
}

async fn serve_http(
    stream: impl OverTcp,
    timeouts: ConnectionTimeouts,
    admitted: Admitted,
    dispatch: Dispatch,
    watcher: Watcher,
) {
    let received = Arc::new(ReceivedBytes::default());
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(HeadTimer::new(timeouts, Arc::clone(&received)))
        .header_read_timeout(timeouts.idle);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    let counter = Arc::clone(&received);
    let registration = Arc::clone(&admitted.registration);
    let stream = Connection::new(stream, dispatch.reset_on_close(), registration);
    let stream = InspectReader::new(stream, move |bytes: &[u8]| counter.count(bytes));
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), InTurns(dispatch));
    tokio::select! {
        // Errors of one connection are visible to its client, and are no fault of the host.
        ended = watcher.watch(connection.into_owned()) => if let Err(error) = ended {
            tracing::debug!(error, "connection ended early");
        },
        () = received.protocol_timeout(timeouts) => {
            tracing::debug!("connection closed: no request before the head timeout");
        }
        () = admitted.closed(timeouts) => {
            tracing::debug!("connection closed: it rested without a token, or for another one");
        }
    }
}
