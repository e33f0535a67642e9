//! From a connection to one nobody on the way can read.

use std::{sync::Arc, time::Duration};

use rustls::ServerConfig;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::plain;

/// What every record of a handshake begins with.
const HANDSHAKE: u8 = 0x16;

/// Shakes hands; `None` when there is nobody to serve.
pub(crate) async fn shake_hands(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    patience: Duration,
) -> Option<TlsStream<TcpStream>> {
    let shaking = async {
        match first_byte(&stream).await? {
            Some(HANDSHAKE) => TlsAcceptor::from(config).accept(stream).await.map(Some),
            Some(_) => plain::explain(stream).await.map(|()| None),
            // It only wanted to know whether somebody listens.
            None => Ok(None),
        }
    };
    match timeout(patience, shaking).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("a handshake took too long");
            None
        }
    }
}

async fn first_byte(stream: &TcpStream) -> std::io::Result<Option<u8>> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok((count == 1).then_some(first[0]))
}
