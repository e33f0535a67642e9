//! Ports of sandboxes on which TLS is spoken.
//!
//! Who has a certificate in a sandbox made it there. It is not looked at: the connection never leaves this machine, and
//! whoever comes from outside trusts the host's own.

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

const LONGEST_GREETING: Duration = Duration::from_secs(10);

/// Speaks TLS on a connection into a session, with a server of this name that is to answer in `protocol`.
pub(super) async fn greet(connection: PortConnection, name: ServerName<'static>, protocol: &[u8]) -> Result<Secured> {
    let greeting = TlsConnector::from(Arc::new(config(protocol)?)).connect(name, connection);
    // One that speaks something else may wait for more of it.
    let greeted = timeout(LONGEST_GREETING, greeting).await.unwrap_or_else(|late| Err(late.into()));
    greeted.map(Secured).map_err(|error| Error::io("speak TLS with a server in a session", error))
}

/// A connection in TLS. Many a server ends one without saying so, and means the end of its answer.
pub(super) struct Secured(TlsStream<PortConnection>);

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.0).poll_read(context, buffer) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            other => other,
        }
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The name a request is for.
pub(super) fn name_in(request: &Request<Body>) -> ServerName<'static> {
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
        .map_err(|source| Error::internal("could not set up TLS").with_source(source))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

/// Takes every server for the one that was meant, whatever its certificate is like.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
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

    // Whose key it is nobody knows.
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
