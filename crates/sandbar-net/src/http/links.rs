//! Connections to servers, kept as long as the client's and only while the same rules hold.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use http::{Request, Response, request::Parts};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::{TrySendError, http1, http2},
};
use hyper_util::rt::TokioIo;
use sandbar_core::DomainName;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Outside, Refusal, content::Content, headers, requested::Requested, tasks::Tasks};
use crate::{rules::Rules, sniff::HostPort, tls::Speak};

/// How servers are spoken to.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    Plain,
    /// Inside TLS, to a server that proves to be this host.
    Tls(DomainName, Speak),
}

/// A connection to a server.
pub(super) struct Link {
    target: HostPort,
    /// Those that allowed it.
    rules: Arc<Rules>,
    pub(super) address: SocketAddr,
    pub(super) is_reused: bool,
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<Content>),
    Http2(http2::SendRequest<Content>),
}

/// A request that got no response.
pub(super) struct Failed {
    pub(super) reason: String,
    /// Nothing of it left.
    pub(super) unsent: Option<(Parts, Content)>,
}

/// The connections to servers that one client's connection has.
pub(super) struct Links {
    outside: Arc<dyn Outside>,
    manner: Manner,
    idle: Arc<Mutex<Vec<Link>>>,
    tasks: Tasks,
    /// Held while the first connection is made that others may share.
    first: tokio::sync::Mutex<()>,
    shares_nothing: AtomicBool,
}

impl Links {
    pub(super) fn new(outside: Arc<dyn Outside>, manner: Manner, tasks: Tasks) -> Self {
        let shares_nothing = !matches!(manner, Manner::Tls(_, Speak::AnyHttp));
        Self {
            outside,
            manner,
            idle: Arc::default(),
            tasks,
            first: tokio::sync::Mutex::default(),
            shares_nothing: AtomicBool::new(shares_nothing),
        }
    }

    /// A connection to the target that `rules` allow: one that is there, or a new one.
    pub(super) async fn any(&self, target: &HostPort, rules: &Arc<Rules>) -> Result<Link, Refusal> {
        if let Some(link) = self.reuse(target, rules) {
            return Ok(link);
        }
        if self.shares_nothing.load(Ordering::Relaxed) {
            return self.fresh(target, rules).await;
        }
        let _first = self.first.lock().await;
        match self.reuse(target, rules) {
            Some(link) => Ok(link),
            None => self.fresh(target, rules).await,
        }
    }

    /// A new connection. The gate judges the target once more.
    pub(super) async fn fresh(&self, target: &HostPort, rules: &Arc<Rules>) -> Result<Link, Refusal> {
        let (stream, address) = self.outside.dial(target).await?;
        let unreachable = |reason| Refusal { reason, denied: false };
        let sender = match &self.manner {
            Manner::Plain => self.greet_http1(stream).await,
            Manner::Tls(host, speak) => {
                let stream = self.outside.upstream_tls().connect(stream, host, *speak).await.map_err(unreachable)?;
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    self.greet_http2(stream).await
                } else {
                    self.shares_nothing.store(true, Ordering::Relaxed);
                    self.greet_http1(stream).await
                }
            }
        };
        let sender = sender.map_err(|error| unreachable(error.to_string()))?;
        let link = Link { target: target.clone(), rules: Arc::clone(rules), address, is_reused: false, sender };
        if let Some(shared) = link.shared() {
            self.idle().push(shared);
        }
        Ok(link)
    }

    /// Keeps a connection for the next request, once it is through with this one.
    pub(super) fn keep(&self, mut link: Link) {
        let idle = Arc::clone(&self.idle);
        self.tasks.spawn(async move {
            if let Sender::Http1(sender) = &mut link.sender
                && sender.ready().await.is_ok()
            {
                link.is_reused = true;
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
            }
        });
    }

    fn reuse(&self, target: &HostPort, rules: &Arc<Rules>) -> Option<Link> {
        let mut idle = self.idle();
        idle.retain(|link| Arc::ptr_eq(&link.rules, rules) && !link.is_closed());
        let found = idle.iter().position(|link| link.target == *target)?;
        match idle[found].shared() {
            Some(shared) => Some(shared),
            None => Some(idle.swap_remove(found)),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn greet_http1<S>(&self, stream: S) -> Result<Sender, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http1::Builder::new().preserve_header_case(true).handshake(TokioIo::new(stream)).await?;
        self.tasks.spawn(async move { told(connection.with_upgrades().await) });
        Ok(Sender::Http1(sender))
    }

    async fn greet_http2<S>(&self, stream: S) -> Result<Sender, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http2::handshake(self.tasks.clone(), TokioIo::new(stream)).await?;
        self.tasks.spawn(async move { told(connection.await) });
        Ok(Sender::Http2(sender))
    }
}

fn told(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!("a connection to a server ended: {error}");
    }
}

impl Link {
    /// Another handle of it, if several requests may be under way at once.
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

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(
        &mut self,
        mut head: Parts,
        body: Content,
        requested: &Requested,
    ) -> Result<Response<Incoming>, Failed> {
        match &mut self.sender {
            Sender::Http1(sender) => {
                headers::fit_http1(&mut head, requested, !body.is_end_stream());
                sender.try_send_request(Request::from_parts(head, body)).await.map_err(Failed::from)
            }
            Sender::Http2(sender) => {
                headers::fit_http2(&mut head, requested);
                sender.try_send_request(Request::from_parts(head, body)).await.map_err(Failed::from)
            }
        }
    }
}

impl From<TrySendError<Request<Content>>> for Failed {
    fn from(mut error: TrySendError<Request<Content>>) -> Self {
        Self { unsent: error.take_message().map(Request::into_parts), reason: error.into_error().to_string() }
    }
}
