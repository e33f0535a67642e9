//! Connections to servers. They are reused within one client connection, while its rules are
//! unchanged.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use http::{Request, Response, request::Parts};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::{TrySendError, http1, http2},
};
use hyper_util::rt::TokioIo;
use sandbar_core::{DomainName, MutexExt as _};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    headers::{self, RequestBody},
    relayed_body::RelayedBody,
    request_target::RequestTarget,
    tasks::Tasks,
};
use crate::{
    egress_context::EgressContext, refusal::Refusal, rules::Rules, sniff::HostPort,
    tls::HttpVersions,
};

/// Plain or TLS connection to a server.
#[derive(Clone, Debug)]
pub(super) enum UpstreamScheme {
    Plain,
    /// TLS to a server whose certificate is verified for this host.
    Tls(DomainName, HttpVersions),
}

/// A connection to a server.
pub(super) struct UpstreamConnection {
    target: HostPort,
    /// Rules that allowed the connection.
    rules: Arc<Rules>,
    pub(super) address: SocketAddr,
    pub(super) is_reused: bool,
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<RelayedBody>),
    Http2(http2::SendRequest<RelayedBody>),
}

/// Error of a request without a response.
pub(super) struct SendError {
    pub(super) reason: String,
    /// The request, if none of it was sent.
    pub(super) unsent: Option<(Parts, RelayedBody)>,
}

/// Upstream connections of one client connection.
pub(super) struct UpstreamPool {
    context: Arc<dyn EgressContext>,
    scheme: UpstreamScheme,
    idle: Arc<Mutex<Vec<UpstreamConnection>>>,
    tasks: Tasks,
    /// Held while the first connection is opened, so that concurrent requests share it if it speaks
    /// HTTP/2.
    first: tokio::sync::Mutex<()>,
    is_exclusive: AtomicBool,
}

impl UpstreamPool {
    pub(super) fn new(
        context: Arc<dyn EgressContext>,
        scheme: UpstreamScheme,
        tasks: Tasks,
    ) -> Self {
        let is_exclusive = !matches!(scheme, UpstreamScheme::Tls(_, HttpVersions::Http1Or2));
        Self {
            context,
            scheme,
            idle: Arc::default(),
            tasks,
            first: tokio::sync::Mutex::default(),
            is_exclusive: AtomicBool::new(is_exclusive),
        }
    }

    /// Returns a connection to the target: a pooled one that `rules` allowed, or a new one.
    pub(super) async fn get(
        &self,
        target: &HostPort,
        rules: &Arc<Rules>,
    ) -> Result<UpstreamConnection, Refusal> {
        if let Some(connection) = self.reuse(target, rules) {
            return Ok(connection);
        }
        if self.is_exclusive.load(Ordering::Relaxed) {
            return self.connect(target, rules).await;
        }
        let _first = self.first.lock().await;
        match self.reuse(target, rules) {
            Some(connection) => Ok(connection),
            None => self.connect(target, rules).await,
        }
    }

    /// Opens a new connection. The rules are evaluated again for it.
    pub(super) async fn connect(
        &self,
        target: &HostPort,
        rules: &Arc<Rules>,
    ) -> Result<UpstreamConnection, Refusal> {
        let (stream, address) = self.context.dial(target).await?;
        let sender = match &self.scheme {
            UpstreamScheme::Plain => self.handshake_http1(stream).await,
            UpstreamScheme::Tls(host, versions) => {
                let stream = self
                    .context
                    .upstream_tls()
                    .connect(stream, host, *versions)
                    .await
                    .map_err(Refusal::unreachable)?;
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    self.handshake_http2(stream).await
                } else {
                    self.is_exclusive.store(true, Ordering::Relaxed);
                    self.handshake_http1(stream).await
                }
            }
        };
        let sender = sender.map_err(|error| Refusal::unreachable(error.to_string()))?;
        let connection = UpstreamConnection {
            target: target.clone(),
            rules: Arc::clone(rules),
            address,
            is_reused: false,
            sender,
        };
        if let Some(shared) = connection.shared() {
            self.idle().push(shared);
        }
        Ok(connection)
    }

    /// Returns a connection to the pool once it has finished its request.
    pub(super) fn put_back(&self, mut connection: UpstreamConnection) {
        let idle = Arc::clone(&self.idle);
        self.tasks.spawn(async move {
            if let Sender::Http1(sender) = &mut connection.sender
                && sender.ready().await.is_ok()
            {
                connection.is_reused = true;
                idle.lock_unpoisoned().push(connection);
            }
        });
    }

    fn reuse(&self, target: &HostPort, rules: &Arc<Rules>) -> Option<UpstreamConnection> {
        let mut idle = self.idle();
        idle.retain(|connection| Arc::ptr_eq(&connection.rules, rules) && !connection.is_closed());
        let found = idle
            .iter()
            .position(|connection| connection.target == *target)?;
        match idle[found].shared() {
            Some(shared) => Some(shared),
            None => Some(idle.swap_remove(found)),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<UpstreamConnection>> {
        self.idle.lock_unpoisoned()
    }

    async fn handshake_http1<S>(&self, stream: S) -> Result<Sender, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .handshake(TokioIo::new(stream))
            .await?;
        self.tasks
            .spawn(async move { log_error(connection.with_upgrades().await) });
        Ok(Sender::Http1(sender))
    }

    async fn handshake_http2<S>(&self, stream: S) -> Result<Sender, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http2::handshake(self.tasks.clone(), TokioIo::new(stream)).await?;
        self.tasks.spawn(async move { log_error(connection.await) });
        Ok(Sender::Http2(sender))
    }
}

fn log_error(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!("connection to a server failed: {error}");
    }
}

impl UpstreamConnection {
    /// Returns another handle of an HTTP/2 connection; `None` for HTTP/1.1, which serves one
    /// request at a time.
    fn shared(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self {
                target: self.target.clone(),
                rules: Arc::clone(&self.rules),
                address: self.address,
                is_reused: true,
                sender: Sender::Http2(sender.clone()),
            }),
        }
    }

    fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// Sends a request and waits for the header section of its response.
    pub(super) async fn send(
        &mut self,
        mut head: Parts,
        body: RelayedBody,
        request_target: &RequestTarget,
    ) -> Result<Response<Incoming>, SendError> {
        match &mut self.sender {
            Sender::Http1(sender) => {
                let presence = if body.is_end_stream() {
                    RequestBody::Absent
                } else {
                    RequestBody::Present
                };
                headers::to_http1(&mut head, request_target, presence);
                sender
                    .try_send_request(Request::from_parts(head, body))
                    .await
                    .map_err(SendError::from)
            }
            Sender::Http2(sender) => {
                headers::to_http2(&mut head, request_target);
                sender
                    .try_send_request(Request::from_parts(head, body))
                    .await
                    .map_err(SendError::from)
            }
        }
    }
}

impl From<TrySendError<Request<RelayedBody>>> for SendError {
    fn from(mut error: TrySendError<Request<RelayedBody>>) -> Self {
        Self {
            unsent: error.take_message().map(Request::into_parts),
            reason: error.into_error().to_string(),
        }
    }
}
