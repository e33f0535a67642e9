//! Current TLS configuration. Changed files are reloaded, so that renewal needs no restart.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    server::{ResolvesServerCert, WebPkiClientVerifier},
    sign::SingleCertAndKey,
};
use sandbar_core::{Error, MutexExt as _, Result};
use sandbar_x509::valid_until;

use super::{
    TlsConfig,
    config::TlsIdentity,
    local::LocalCertificates,
    pem::{certified_key, client_roots},
};

/// TLS configuration with the present content of its files.
#[derive(Debug)]
pub(crate) struct Tls {
    source: Source,
    current: Mutex<Current>,
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
struct Current {
    config: Arc<ServerConfig>,
    /// Stamps of the files at the last load, successful or not.
    stamps: Vec<Option<Stamp>>,
}

/// Identity and version of a file. Differs also when the file was replaced.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    length: u64,
    modified: (i64, i64),
}

impl Tls {
    /// Loads all files. At start any error is fatal.
    pub(crate) fn new(config: TlsConfig) -> Result<Self> {
        let identity = match config.identity {
            TlsIdentity::Files { certificate, key } => Identity::Files { certificate, key },
            TlsIdentity::Local(local) => Identity::Local(Arc::new(LocalCertificates::new(local)?)),
        };
        let source = Source {
            identity,
            client_ca: config.client_ca,
        };
        // Taken before the load, so that a change during the load triggers another one.
        let stamps = source.stamps();
        let config = source.read()?;
        Ok(Self {
            source,
            current: Mutex::new(Current { config, stamps }),
        })
    }

    /// Returns the configuration for the next handshake, reloaded if a file has changed. Costs a
    /// few `stat` calls; the files are small and local.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock_unpoisoned();
        let stamps = self.source.stamps();
        if stamps != current.stamps {
            current.stamps = stamps;
            match self.source.read() {
                Ok(config) => {
                    tracing::info!("TLS certificates changed and were reloaded");
                    current.config = config;
                }
                Err(error) => tracing::error!(
                    "TLS certificates changed and could not be loaded: {}; the previous ones stay in use",
                    error.chain()
                ),
            }
        }
        Arc::clone(&current.config)
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
        self.files()
            .map(|path| fs::metadata(path).ok().map(|data| Stamp::of(&data)))
            .collect()
    }

    fn read(&self) -> Result<Arc<ServerConfig>> {
        let resolver: Arc<dyn ResolvesServerCert> = match &self.identity {
            Identity::Files { certificate, key } => {
                let certified = certified_key(certificate, key)?;
                if let Some(until) = certified.cert.first().and_then(|first| valid_until(first))
                    && until < Timestamp::now()
                {
                    tracing::warn!(
                        "certificate in `{}` expired on {until}: clients will reject it",
                        certificate.display()
                    );
                }
                Arc::new(SingleCertAndKey::from(certified))
            }
            Identity::Local(local) => Arc::clone(local) as _,
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let failed = |source| Error::internal("could not configure TLS").with_source(source);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(client_roots(path)?, provider)
                        .build();
                builder.with_client_cert_verifier(verifier.map_err(|source| {
                    Error::internal("could not configure client certificate verification")
                        .with_source(source)
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
        Self {
            file: (data.dev(), data.ino()),
            length: data.len(),
            modified: (data.mtime(), data.mtime_nsec()),
        }
    }
}
