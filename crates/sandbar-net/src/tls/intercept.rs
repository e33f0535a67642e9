//! Opens TLS of a session.

use std::sync::Arc;

use sandbar_core::DomainName;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::http::{Origin, Outside, serve_http};

/// Ends the TLS that the session meant for `name`, and serves the requests inside. `io` begins with the client's hello.
pub(crate) async fn intercept<S>(io: S, name: DomainName, port: u16, outside: Arc<dyn Outside>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_http(io, Origin::Intercepted { name, port }, outside).await;
}
