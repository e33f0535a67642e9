//! Serves one connection of a session.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Origin, Outside};

/// Serves requests until the connection ends. Dropping the future ends everything it began.
pub(crate) async fn serve_http<S>(io: S, origin: Origin, outside: Arc<dyn Outside>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    drop((io, origin, outside));
}

/// The same, for connections that speak HTTP/2.
pub(crate) async fn serve_http2<S>(io: S, origin: Origin, outside: Arc<dyn Outside>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    drop((io, origin, outside));
}
