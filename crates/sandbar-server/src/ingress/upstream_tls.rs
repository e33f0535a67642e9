//! TLS to servers in sandboxes, for ports on which TLS is spoken.
//!
//! The certificate of such a server was created in the sandbox and is not verified: the connection
//! never leaves this machine, and outside clients verify the certificate of the host.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, header, uri::Authority},
};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use sandbar_core::{Error, Result};
use sandbar_host::PortConnection;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Performs a TLS handshake on a connection into a session, with this SNI and ALPN protocol.
pub(super) async fn connect(
    connection: PortConnection,
    name: ServerName<'static>,
    protocol: &[u8],
) -> Result<TlsConnection> {
    let handshake = TlsConnector::from(Arc::new(config(protocol)?)).connect(name, connection);
    // A server that does not speak TLS may wait for more input.
    let connected = timeout(HANDSHAKE_TIMEOUT, handshake)
        .await
        .unwrap_or_else(|late| Err(late.into()));
    connected
        .map(TlsConnection)
        .map_err(|error| Error::io("speak TLS with a server in a session", error))
}

/// TLS connection that reads a missing `close_notify` as end of stream, as many servers send none.
pub(super) struct TlsConnection(TlsStream<PortConnection>);

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.0).poll_read(context, buffer) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Returns the host name of a request.
pub(super) fn server_name(request: &Request<Body>) -> ServerName<'static> {
    let field = || Authority::try_from(request.headers().get(header::HOST)?.as_bytes()).ok();
    let authority = request.uri().authority().cloned().or_else(field);
    let name = authority.and_then(|authority| {
        let host = authority.host().trim_matches(['[', ']']);
        ServerName::try_from(host).ok().map(|name| name.to_owned())
    });
    name.unwrap_or_else(|| ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST)))
}

fn config(protocol: &[u8]) -> Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|source| Error::internal("could not configure TLS").with_source(source))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

/// Accepts every certificate.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    // A signature proves nothing while the certificate is not verified.
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
