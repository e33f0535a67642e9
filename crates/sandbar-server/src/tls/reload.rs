//! The present certificates. A file that changes is read again, so that renewal needs no restart.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    server::{ResolvesServerCert, WebPkiClientVerifier},
    sign::SingleCertAndKey,
};
use sandbar_core::{Error, Result};
use sandbar_x509::valid_until;

use super::{
    TlsConfig,
    config::TlsIdentity,
    local::LocalCertificates,
    pem::{certified_key, client_roots},
};

/// TLS as it is configured, and as its files are now.
#[derive(Debug)]
pub(crate) struct Tls {
    source: Source,
    present: Mutex<Present>,
}

#[derive(Debug)]
struct Source {
    identity: Identity,
    client_ca: Option<PathBuf>,
}

#[derive(Debug)]
enum Identity {
    Files { certificate: PathBuf, key: PathBuf },
    Local(Arc<LocalCertificates>),
}

#[derive(Debug)]
struct Present {
    config: Arc<ServerConfig>,
    /// What the files were when they were last looked into, whether that went well or not.
    seen: Vec<Option<Stamp>>,
}

/// What changes when a file does, also when another takes its place.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    length: u64,
    modified: (i64, i64),
}

impl Tls {
    /// Everything must be in order at the start.
    pub(crate) fn new(config: TlsConfig) -> Result<Self> {
        let identity = match config.identity {
            TlsIdentity::Files { certificate, key } => Identity::Files { certificate, key },
            TlsIdentity::Local(local) => Identity::Local(Arc::new(LocalCertificates::new(local)?)),
        };
        let source = Source { identity, client_ca: config.client_ca };
        // Before they are read: what changes meanwhile is read again.
        let seen = source.stamps();
        let config = source.read()?;
        Ok(Self { source, present: Mutex::new(Present { config, seen }) })
    }

    /// What the next handshake goes by. A few `stat` calls, unless a file has changed; files are small, and local.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.source.stamps();
        if stamps != present.seen {
            present.seen = stamps;
            match self.source.read() {
                Ok(config) => {
                    tracing::info!("the certificates of the port have changed and were read again");
                    present.config = config;
                }
                Err(error) => tracing::error!(
                    "the certificates of the port have changed and cannot be used: {}; the old ones are kept",
                    error.chain()
                ),
            }
        }
        Arc::clone(&present.config)
    }
}

impl Source {
    fn files(&self) -> impl Iterator<Item = &Path> {
        let own = match &self.identity {
            Identity::Files { certificate, key } => vec![certificate, key],
            Identity::Local(_) => Vec::new(),
        };
        own.into_iter().chain(&self.client_ca).map(PathBuf::as_path)
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.files().map(|path| fs::metadata(path).ok().map(|data| Stamp::of(&data))).collect()
    }

    fn read(&self) -> Result<Arc<ServerConfig>> {
        let resolver: Arc<dyn ResolvesServerCert> = match &self.identity {
            Identity::Files { certificate, key } => {
                let certified = certified_key(certificate, key)?;
                if let Some(until) = certified.cert.first().and_then(|first| valid_until(first))
                    && until < Timestamp::now()
                {
                    tracing::warn!(
                        "the certificate in `{}` ran out on {until}: clients refuse it",
                        certificate.display()
                    );
                }
                Arc::new(SingleCertAndKey::from(certified))
            }
            Identity::Local(local) => Arc::clone(local) as _,
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let failed = |source| Error::internal("could not set up TLS").with_source(source);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let builder =
            match &self.client_ca {
                None => builder.with_no_client_auth(),
                Some(path) => {
                    let verifier = WebPkiClientVerifier::builder_with_provider(client_roots(path)?, provider).build();
                    builder.with_client_cert_verifier(verifier.map_err(|source| {
                        Error::internal("could not set up the check of clients").with_source(source)
                    })?)
                }
            };
        let mut config = builder.with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl Stamp {
    fn of(data: &fs::Metadata) -> Self {
        Self { file: (data.dev(), data.ino()), length: data.len(), modified: (data.mtime(), data.mtime_nsec()) }
    }
}
