//! TLS client for connections to servers.

use std::{path::Path, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use sandbar_core::{DomainName, Error, Result};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::GatewaySettings;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// TLS client. Verifies the certificate of every server.
#[derive(Debug)]
pub(crate) struct UpstreamTls {
    http1: Arc<ClientConfig>,
    any_http: Arc<ClientConfig>,
}

/// HTTP versions to offer by ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVersions {
    Http1,
    /// The server chooses.
    Http1Or2,
}

impl UpstreamTls {
    /// Trusts the root certificates of the system, of which there may be none, and those of the
    /// settings.
    pub(crate) fn new(settings: &GatewaySettings) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        for error in &system.errors {
            tracing::debug!("could not read certificates of the system: {error}");
        }
        roots.add_parsable_certificates(system.certs);
        if let Some(path) = &settings.trusted_certificates {
            add_file(&mut roots, path)?;
        }
        let mut http1 =
            ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|source| Error::internal("set up TLS for servers").with_source(source))?
                .with_root_certificates(roots)
                .with_no_client_auth();
        let mut any_http = http1.clone();
        any_http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            http1: Arc::new(http1),
            any_http: Arc::new(any_http),
        })
    }

    /// Performs the TLS handshake. Fails if the certificate is not valid for `host`.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        host: &DomainName,
        versions: HttpVersions,
    ) -> Result<TlsStream<TcpStream>, String> {
        let config = match versions {
            HttpVersions::Http1 => &self.http1,
            HttpVersions::Http1Or2 => &self.any_http,
        };
        let name =
            ServerName::try_from(host.as_str().to_owned()).map_err(|error| error.to_string())?;
        match timeout(
            HANDSHAKE_TIMEOUT,
            TlsConnector::from(Arc::clone(config)).connect(name, stream),
        )
        .await
        {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(format!("TLS failed: {error}")),
            Err(_) => Err("TLS handshake timed out".to_owned()),
        }
    }
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<()> {
    let refuse = |why: String| {
        Error::invalid("egress_ca_file", format!("`{}` {why}", path.display()))
            .with_hint("give a file with one or more certificates in PEM")
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let mut count = 0;
    for certificate in certificates {
        let certificate =
            certificate.map_err(|error| refuse(format!("is not valid PEM: {error}")))?;
        roots
            .add(certificate)
            .map_err(|error| refuse(format!("has an invalid certificate: {error}")))?;
        count += 1;
    }
    if count == 0 {
        Err(refuse("has no certificate".to_owned()))
    } else {
        Ok(())
    }
}
