//! Terminates TLS of a session.

use std::{sync::Arc, time::Duration};

use sandbar_core::DomainName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{Origin, serve_http, serve_http2};
use crate::egress_context::EgressContext;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Terminates TLS for `name` and serves the requests inside. `io` starts with the ClientHello. The
/// caller has judged the name and checked that the session has a CA.
pub(crate) async fn intercept<S>(
    io: S,
    name: DomainName,
    port: u16,
    context: Arc<dyn EgressContext>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(authority) = context.authority() else {
        tracing::warn!("could not intercept TLS to {name}: the session has no CA");
        return;
    };
    let config = match authority.server_config(&name) {
        Ok(config) => config,
        Err(error) => {
            tracing::warn!("could not intercept TLS to {name}: {}", error.chain());
            return;
        }
    };
    // A client that pins another CA ends the handshake here.
    let io = match timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(io)).await {
        Ok(Ok(io)) => io,
        Ok(Err(error)) => {
            tracing::debug!("TLS handshake for {name} failed: {error}");
            return;
        }
        Err(_) => {
            tracing::debug!("TLS handshake for {name} timed out");
            return;
        }
    };
    let origin = Origin::Intercepted { name, port };
    if io.get_ref().1.alpn_protocol() == Some(b"h2") {
        serve_http2(io, origin, context).await;
    } else {
        serve_http(io, origin, context).await;
    }
}
