//! Connections to a host: name resolution, TCP, and TLS for `https://`.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Uri, uri::Scheme};
use hyper_util::{
    client::legacy::connect::{HttpConnector, dns::Name},
    rt::TokioIo,
};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use sandbar_resolver::{LookupError, Resolver};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::either::Either;
use tower::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// ALPN id of the only protocol of these connections.
const HTTP2: &[u8] = b"h2";

/// Connector for HTTP/2.
pub(crate) struct Connector {
    tcp: HttpConnector<Names>,
    tls: Option<TlsConnector>,
}

impl Connector {
    /// `tls` is the configuration for `https://`, and `None` for `http://`.
    pub(crate) fn new(tls: Option<&ClientConfig>, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Names(Arc::new(Resolver::system())));
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeout));
        tcp.enforce_http(false);
        let tls = tls.map(|config| {
            let mut config = config.clone();
            config.alpn_protocols = vec![HTTP2.to_vec()];
            TlsConnector::from(Arc::new(config))
        });
        Self { tcp, tls }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Either<TcpStream, TlsStream<TcpStream>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let server = server_name(&uri);
        let is_https = uri.scheme() == Some(&Scheme::HTTPS);
        let stream = self.tcp.call(uri);
        let tls = self.tls.clone();
        async move {
            let stream = stream.await?.into_inner();
            let stream = match tls {
                None if is_https => return Err("TLS is not configured".into()),
                None => Either::Left(stream),
                Some(tls) => Either::Right(handshake(&tls, server?, stream).await?),
            };
            Ok(TokioIo::new(stream))
        }
        .boxed()
    }
}

async fn handshake(
    tls: &TlsConnector,
    server: ServerName<'static>,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = tls.connect(server, stream).await?;
    if stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the server does not speak HTTP/2",
        ));
    }
    Ok(stream)
}

/// Returns the name that the server certificate must match. URIs have IPv6 addresses in brackets.
fn server_name(uri: &Uri) -> Result<ServerName<'static>, BoxError> {
    let host = uri.host().unwrap_or_default();
    let host = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    Ok(ServerName::try_from(host.to_owned())?)
}

/// Name resolution in place of the connector's `getaddrinfo`.
#[derive(Clone)]
struct Names(Arc<Resolver>);

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = LookupError;
    type Future = BoxFuture<'static, Result<Self::Response, LookupError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LookupError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = Arc::clone(&self.0);
        async move {
            let addresses = resolver.addresses_of(name.as_str()).await?;
            // The connector fills in the port.
            let addresses: Vec<_> = addresses
                .into_iter()
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            Ok(addresses.into_iter())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_name_is_the_host_without_brackets() {
        for (uri, expected) in [
            ("https://host.example:9100", "host.example"),
            ("https://127.0.0.1", "127.0.0.1"),
            ("https://[::1]:9100", "::1"),
        ] {
            let name = server_name(&Uri::from_static(uri)).unwrap();
            assert_eq!(name.to_str(), expected);
        }
        server_name(&Uri::from_static("https://not_a-/name")).unwrap_err();
    }
}
