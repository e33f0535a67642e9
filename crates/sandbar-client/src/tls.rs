//! TLS options: trusted CAs and the client certificate.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use sandbar_core::{Error, Result};

/// PEM files for `https://` addresses. Without `ca_file`, the CAs of this machine are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// CA certificates that are trusted in place of the machine's.
    pub ca_file: Option<PathBuf>,
    /// Client certificate with its intermediates, for hosts that require one.
    pub cert_file: Option<PathBuf>,
    /// Private key of the client certificate.
    pub key_file: Option<PathBuf>,
}

impl TlsOptions {
    /// Loads the files.
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>> {
        let failed = |source| Error::internal("could not configure TLS").with_source(source);
        let config = ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::aws_lc_rs::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_root_certificates(self.roots()?);
        let config = match (&self.cert_file, &self.key_file) {
            (None, None) => config.with_no_client_auth(),
            (Some(cert_file), Some(key_file)) => {
                let chain = certificates("cert_file", cert_file)?;
                let key = PrivateKeyDer::from_pem_file(key_file)
                    .map_err(|error| unusable("key_file", key_file, "a private key", &error))?;
                config.with_client_auth_cert(chain, key).map_err(|error| {
                    unusable("key_file", key_file, "the key of the certificate", &error)
                })?
            }
            (Some(_), None) => {
                return Err(half(
                    "key_file",
                    "client certificate is set without its key",
                ));
            }
            (None, Some(_)) => {
                return Err(half(
                    "cert_file",
                    "client key is set without its certificate",
                ));
            }
        };
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let Some(file) = &self.ca_file else {
            // Unreadable certificates of the machine's store are skipped; a host that needs one
            // fails in the handshake.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return Ok(roots);
        };
        for certificate in certificates("ca_file", file)? {
            roots
                .add(certificate)
                .map_err(|error| unusable("ca_file", file, "a CA certificate", &error))?;
        }
        Ok(roots)
    }
}

fn certificates(field: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let invalid =
        |error: rustls_pki_types::pem::Error| unusable(field, file, "certificates", &error);
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .map_err(invalid)?
        .collect::<std::result::Result<_, _>>()
        .map_err(invalid)?;
    if found.is_empty() {
        return Err(unusable(field, file, "certificates", &"it has none"));
    }
    Ok(found)
}

fn unusable(field: &'static str, file: &Path, what: &str, reason: &dyn std::fmt::Display) -> Error {
    Error::invalid(
        field,
        format!(
            "`{}` could not be read as {what} — {reason}",
            file.display()
        ),
    )
    .with_hint("use a PEM file that this user can read")
}

fn half(field: &'static str, message: &str) -> Error {
    Error::invalid(field, message).with_hint("set both, or neither")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_file_is_named_in_the_error() {
        let directory = tempfile::tempdir().unwrap();
        let garbage = directory.path().join("garbage.pem");
        std::fs::write(&garbage, "not PEM at all").unwrap();
        let missing = directory.path().join("missing.pem");
        for file in [garbage, missing] {
            let options = TlsOptions {
                ca_file: Some(file.clone()),
                ..Default::default()
            };
            let error = options.load().unwrap_err();
            assert_eq!(error.field(), Some("ca_file"));
            assert!(
                error.to_string().contains(&*file.to_string_lossy()),
                "{error}"
            );
        }
        let options = TlsOptions {
            cert_file: Some("cert.pem".into()),
            ..Default::default()
        };
        assert_eq!(options.load().unwrap_err().field(), Some("key_file"));
        let options = TlsOptions {
            key_file: Some("key.pem".into()),
            ..Default::default()
        };
        assert_eq!(options.load().unwrap_err().field(), Some("cert_file"));
        TlsOptions::default().load().unwrap();
    }
}
