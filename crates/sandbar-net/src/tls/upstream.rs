//! TLS to servers outside.

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

const LONGEST_HANDSHAKE: Duration = Duration::from_secs(30);

/// Connects to servers and checks who they are.
#[derive(Debug)]
pub(crate) struct UpstreamTls {
    http1: Arc<ClientConfig>,
    any_http: Arc<ClientConfig>,
}

/// What to speak inside TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speak {
    Http1,
    /// Whichever the server likes better.
    AnyHttp,
}

impl UpstreamTls {
    /// Trusts what the system trusts, which may be nobody, and those the settings name.
    pub(crate) fn new(settings: &GatewaySettings) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        for error in &system.errors {
            tracing::debug!("certificates of the system cannot be read: {error}");
        }
        roots.add_parsable_certificates(system.certs);
        if let Some(path) = &settings.trusted_certificates {
            add_file(&mut roots, path)?;
        }
        let mut http1 = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|source| Error::internal("set up TLS towards servers").with_source(source))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut any_http = http1.clone();
        any_http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { http1: Arc::new(http1), any_http: Arc::new(any_http) })
    }

    /// Makes TLS of a connection, if the server at its end proves to be `host`.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        host: &DomainName,
        speak: Speak,
    ) -> Result<TlsStream<TcpStream>, String> {
        let config = match speak {
            Speak::Http1 => &self.http1,
            Speak::AnyHttp => &self.any_http,
        };
        let name = ServerName::try_from(host.as_str().to_owned()).map_err(|error| error.to_string())?;
        match timeout(LONGEST_HANDSHAKE, TlsConnector::from(Arc::clone(config)).connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(format!("TLS failed: {error}")),
            Err(_) => Err("TLS took too long".to_owned()),
        }
    }
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<()> {
    let refuse = |why: String| {
        Error::invalid("egress_ca_file", format!("`{}` {why}", path.display()))
            .with_hint("give a file with one or more certificates in PEM")
    };
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let mut count = 0;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| refuse(format!("is no PEM: {error}")))?;
        roots.add(certificate).map_err(|error| refuse(format!("has a certificate that is none: {error}")))?;
        count += 1;
    }
    if count == 0 { Err(refuse("has no certificate in it".to_owned())) } else { Ok(()) }
}
