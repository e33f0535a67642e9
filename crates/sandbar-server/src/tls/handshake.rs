//! TLS handshake of accepted connections.

use std::{sync::Arc, time::Duration};

use rustls::ServerConfig;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::plain;

/// Content type of a TLS handshake record, the first byte of a client hello.
const HANDSHAKE_RECORD: u8 = 0x16;

/// Performs the handshake. `None` when it fails, takes longer than `handshake_timeout`, or the
/// client speaks plain HTTP, which is answered here.
pub(crate) async fn accept_tls(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    handshake_timeout: Duration,
) -> Option<TlsStream<TcpStream>> {
    let handshake = async {
        match first_byte(&stream).await? {
            Some(HANDSHAKE_RECORD) => TlsAcceptor::from(config).accept(stream).await.map(Some),
            Some(_) => plain::answer_plaintext(stream).await.map(|()| None),
            // Closed without a byte: a port probe.
            None => Ok(None),
        }
    };
    match timeout(handshake_timeout, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("TLS handshake timed out");
            None
        }
    }
}

async fn first_byte(stream: &TcpStream) -> std::io::Result<Option<u8>> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok((count == 1).then_some(first[0]))
}
