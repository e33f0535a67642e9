//! Passing a request on into a session, and the answer back.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, Uri, Version, header, uri::Scheme},
};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
    upgrade,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandbar_core::{Error, ErrorCode, Result};
use sandbar_e2b::PortRules;
use sandbar_host::PortAccess;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Ingress, headers, https, target::Target, tunnel};
use crate::{access::Peer, entrance::Transport};

/// What servers in sessions are spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// Every server knows it.
    Http1,
    /// What gRPC is made of; its servers know nothing else.
    Http2,
}

impl Wire {
    /// What TLS calls it.
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

impl Ingress {
    /// Passes a request on by a connection of its own. The body is taken out of it once there is somebody to send it to.
    pub(super) async fn pass_on(
        &self,
        target: &Target,
        request: &mut Request<Body>,
        access: &PortAccess,
        rules: Option<&PortRules>,
        peer: Peer,
    ) -> Result<Response<Body>> {
        let connection = self.host.dial_port(&target.session, target.port).await?;
        let wire = wire_of(request);
        let protocol = headers::upgrade(request.headers()).filter(|_| request.version() == Version::HTTP_11);
        let client = protocol.as_ref().map(|_| upgrade::on(&mut *request));
        let mut outgoing = self.outgoing(request, wire, protocol, peer)?;
        self.e2b.take_out_keys(outgoing.headers_mut(), access);
        // The name the server is to believe it was asked by.
        if let Some(host) = rules.and_then(|rules| rules.host_header(target.port)) {
            mask(&mut outgoing, &host)?;
        }
        let sent = if rules.is_some_and(|rules| rules.speaks_tls(target.port)) {
            let secured = https::greet(connection, https::name_in(&outgoing), wire.name()).await;
            send(secured.map_err(|error| no_answer(target, error))?, wire, outgoing).await
        } else {
            send(connection, wire, outgoing).await
        };
        let mut response = sent.map_err(|error| no_answer(target, error))?;

        let switched = headers::upgrade(response.headers());
        headers::take_out_hop_by_hop(response.headers_mut());
        // The version is that of the connection it goes out by.
        *response.version_mut() = Version::HTTP_11;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let (Some(client), Some(protocol)) = (client, switched) else {
                return Err(no_answer(target, "it changed the protocol, and nobody had asked for that"));
            };
            headers::put_upgrade(response.headers_mut(), protocol);
            tunnel::open(client, upgrade::on(&mut response), self.shutdown.clone());
        }
        Ok(response.map(Body::new))
    }

    /// The request as the session is to see it.
    fn outgoing(
        &self,
        request: &mut Request<Body>,
        wire: Wire,
        protocol: Option<HeaderValue>,
        peer: Peer,
    ) -> Result<Request<Body>> {
        let mut headers = request.headers().clone();
        let mut place = request.uri().clone().into_parts();
        if let Some(host) =
            place.authority.as_ref().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
        {
            headers.insert(header::HOST, host);
        }
        let transport = request.extensions().get::<Transport>().copied().unwrap_or(Transport::Plain);
        headers::prepare(&mut headers, |value| self.gatekeeper.is_for_this_host(value), peer, transport);
        if let Some(protocol) = protocol {
            headers::put_upgrade(&mut headers, protocol);
        }
        match wire {
            Wire::Http1 => (place.scheme, place.authority) = (None, None),
            Wire::Http2 => {
                place.scheme = Some(Scheme::HTTP);
                // It is told in another way there.
                headers.remove(header::HOST);
            }
        }
        let place = Uri::from_parts(place)
            .map_err(|source| Error::invalid("uri", "the request is for no address").with_source(source))?;
        let mut outgoing = Request::new(std::mem::take(request.body_mut()));
        *outgoing.method_mut() = request.method().clone();
        *outgoing.uri_mut() = place;
        *outgoing.headers_mut() = headers;
        Ok(outgoing)
    }
}

/// Sends a request to another name than it came for.
fn mask(request: &mut Request<Body>, host: &str) -> Result<()> {
    let unusable = || Error::invalid("host", "the host name that was set for the ports of the session cannot be one");
    if request.headers().contains_key(header::HOST) {
        request.headers_mut().insert(header::HOST, HeaderValue::from_str(host).map_err(|_| unusable())?);
    }
    let mut place = request.uri().clone().into_parts();
    if place.authority.is_some() {
        place.authority = Some(host.parse().map_err(|_| unusable())?);
        *request.uri_mut() = Uri::from_parts(place).map_err(|_| unusable())?;
    }
    Ok(())
}

fn wire_of(request: &Request<Body>) -> Wire {
    let kind = request.headers().get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    let is_grpc = kind.starts_with(b"application/grpc") && !kind.starts_with(b"application/grpc-web");
    if is_grpc && request.version() == Version::HTTP_2 { Wire::Http2 } else { Wire::Http1 }
}

/// Sends a request, and waits for the head of the answer. The connection is closed when the answer has been read, or
/// nobody wants it any more.
async fn send(
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    wire: Wire,
    request: Request<Body>,
) -> hyper::Result<Response<Incoming>> {
    let io = TokioIo::new(connection);
    match wire {
        Wire::Http1 => {
            // `Host` and not `host`, as E2B has it: not every server takes both.
            let (mut sender, connection) = http1::Builder::new().title_case_headers(true).handshake(io).await?;
            drive(connection.with_upgrades());
            sender.send_request(request).await
        }
        Wire::Http2 => {
            let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            drive(connection);
            sender.send_request(request).await
        }
    }
}

fn drive(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) {
    tokio::spawn(async move {
        // Whoever waits for the answer hears of it as well.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection into a session ended early");
        }
    });
}

fn no_answer(target: &Target, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let Target { session, port, .. } = target;
    let what = format!("what listens on port {port} of session `{session}` gave no answer that is HTTP");
    Error::new(ErrorCode::Unavailable, what)
        .with_field("port")
        .with_hint("look at what it wrote: it may have ended, or speak another protocol")
        .with_source(why)
}
