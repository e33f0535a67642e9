//! Opens TLS of a session.

use std::{sync::Arc, time::Duration};

use sandbar_core::DomainName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::http::{Origin, Outside, serve_http, serve_http2};

const LONGEST_HANDSHAKE: Duration = Duration::from_secs(30);

/// Ends the TLS that the session meant for `name`, and serves the requests inside. `io` begins with the client's hello.
/// The gate has judged the name, and knows that there is an authority.
pub(crate) async fn intercept<S>(io: S, name: DomainName, port: u16, outside: Arc<dyn Outside>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(authority) = outside.authority() else {
        tracing::warn!("TLS to {name} cannot be opened: the session has no authority");
        return;
    };
    let config = match authority.server_config(&name) {
        Ok(config) => config,
        Err(error) => {
            tracing::warn!("TLS to {name} cannot be opened: {}", error.chain());
            return;
        }
    };
    // A client that trusts somebody else leaves here, and that is its right.
    let io = match timeout(LONGEST_HANDSHAKE, TlsAcceptor::from(config).accept(io)).await {
        Ok(Ok(io)) => io,
        Ok(Err(error)) => {
            tracing::debug!("TLS to {name} was not opened: {error}");
            return;
        }
        Err(_) => {
            tracing::debug!("TLS to {name} was not opened: the client took too long");
            return;
        }
    };
    let origin = Origin::Intercepted { name, port };
    if io.get_ref().1.alpn_protocol() == Some(b"h2") {
        serve_http2(io, origin, outside).await;
    } else {
        serve_http(io, origin, outside).await;
    }
}
