//! Forwarding of requests to servers in sessions.

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

use super::{Ingress, headers, target::Target, tunnel, upstream_tls};
use crate::{
    access::{CallSlot, Peer},
    http::Transport,
};

/// Protocol spoken to the server in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Http1,
    /// For gRPC only, whose servers speak nothing else.
    Http2,
}

impl Wire {
    /// Returns the ALPN protocol id.
    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

impl Ingress {
    /// Forwards a request over a connection of its own. The body is taken out of `request` only
    /// when the connection is open, so that an error response can still drain it.
    pub(super) async fn forward(
        &self,
        target: &Target,
        request: &mut Request<Body>,
        access: &PortAccess,
        rules: Option<&PortRules>,
        peer: Peer,
    ) -> Result<Response<Body>> {
        let connection = self.host.dial_port(&target.session, target.port).await?;
        let wire = wire_of(request);
        let protocol =
            headers::upgrade(request.headers()).filter(|_| request.version() == Version::HTTP_11);
        let client = protocol.as_ref().map(|_| upgrade::on(&mut *request));
        let mut outgoing = self.outgoing(request, wire, protocol, peer)?;
        self.e2b.remove_credentials(outgoing.headers_mut(), access);
        // E2B sandboxes can set the host name that their servers see.
        if let Some(host) = rules.and_then(|rules| rules.host_header(target.port)) {
            set_host(&mut outgoing, &host)?;
        }
        let sent = if rules.is_some_and(|rules| rules.speaks_tls(target.port)) {
            let secured = upstream_tls::connect(
                connection,
                upstream_tls::server_name(&outgoing),
                wire.alpn(),
            )
            .await;
            self.send(
                secured.map_err(|error| no_answer(target, error))?,
                wire,
                outgoing,
            )
            .await
        } else {
            self.send(connection, wire, outgoing).await
        };
        let mut response = sent.map_err(|error| no_answer(target, error))?;

        let switched = headers::upgrade(response.headers());
        headers::remove_hop_by_hop(response.headers_mut());
        // hyper sets the version of the client's connection.
        *response.version_mut() = Version::HTTP_11;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let (Some(client), Some(protocol)) = (client, switched) else {
                return Err(no_answer(
                    target,
                    "unexpected status 101: the request asked for no upgrade",
                ));
            };
            headers::set_upgrade(response.headers_mut(), protocol);
            let server = upgrade::on(&mut response);
            // The call lasts as long as the tunnel.
            let call = CallSlot::of(request).map(CallSlot::detach)?;
            self.spawn(tunnel::run(client, server, call, self.shutdown.clone()));
        }
        Ok(response.map(Body::new))
    }

    /// Builds the request that is sent to the session.
    fn outgoing(
        &self,
        request: &mut Request<Body>,
        wire: Wire,
        protocol: Option<HeaderValue>,
        peer: Peer,
    ) -> Result<Request<Body>> {
        let mut headers = request.headers().clone();
        let mut uri = request.uri().clone().into_parts();
        if let Some(host) = uri
            .authority
            .as_ref()
            .and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
        {
            headers.insert(header::HOST, host);
        }
        let transport = request
            .extensions()
            .get::<Transport>()
            .copied()
            .unwrap_or(Transport::Plain);
        headers::prepare(
            &mut headers,
            |value| self.verifier.is_host_token(value),
            peer,
            transport,
        );
        if let Some(protocol) = protocol {
            headers::set_upgrade(&mut headers, protocol);
        }
        match wire {
            Wire::Http1 => (uri.scheme, uri.authority) = (None, None),
            Wire::Http2 => {
                uri.scheme = Some(Scheme::HTTP);
                // HTTP/2 has `:authority` in its uri.
                headers.remove(header::HOST);
            }
        }
        let uri = Uri::from_parts(uri).map_err(|source| {
            Error::invalid("uri", "request target is not a valid URI").with_source(source)
        })?;
        let mut outgoing = Request::new(std::mem::take(request.body_mut()));
        *outgoing.method_mut() = request.method().clone();
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = headers;
        Ok(outgoing)
    }

    /// Sends a request, and returns at the head of the response. The connection is closed when the
    /// response body was read or dropped.
    async fn send(
        &self,
        connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        wire: Wire,
        request: Request<Body>,
    ) -> hyper::Result<Response<Incoming>> {
        let io = TokioIo::new(connection);
        match wire {
            Wire::Http1 => {
                // `Host` and not `host`, like E2B: some servers compare header names by case.
                let (mut sender, connection) = http1::Builder::new()
                    .title_case_headers(true)
                    .handshake(io)
                    .await?;
                self.spawn(drive(connection.with_upgrades()));
                sender.send_request(request).await
            }
            Wire::Http2 => {
                let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                self.spawn(drive(connection));
                sender.send_request(request).await
            }
        }
    }
}

/// Replaces the host name of a request.
fn set_host(request: &mut Request<Body>, host: &str) -> Result<()> {
    let unusable = || {
        Error::invalid(
            "host",
            "host name set for the ports of the session is not valid",
        )
    };
    if request.headers().contains_key(header::HOST) {
        request.headers_mut().insert(
            header::HOST,
            HeaderValue::from_str(host).map_err(|_| unusable())?,
        );
    }
    let mut uri = request.uri().clone().into_parts();
    if uri.authority.is_some() {
        uri.authority = Some(host.parse().map_err(|_| unusable())?);
        *request.uri_mut() = Uri::from_parts(uri).map_err(|_| unusable())?;
    }
    Ok(())
}

fn wire_of(request: &Request<Body>) -> Wire {
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], |kind| kind.as_bytes());
    let is_grpc =
        kind.starts_with(b"application/grpc") && !kind.starts_with(b"application/grpc-web");
    if is_grpc && request.version() == Version::HTTP_2 {
        Wire::Http2
    } else {
        Wire::Http1
    }
}

/// Drives a connection into a session. Its errors reach the sender of the request as well.
async fn drive(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection into a session ended early");
    }
}

fn no_answer(
    target: &Target,
    reason: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    let Target { session, port, .. } = target;
    let message =
        format!("server on port {port} of session `{session}` sent no valid HTTP response");
    Error::new(ErrorCode::Unavailable, message)
        .with_field("port")
        .with_hint("check its output: it may have exited, or speak another protocol")
        .with_source(reason)
}
