//! Whom a client trusts, and how it shows who it is.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use sandbar_core::{Error, Result};

/// Files for `https://` addresses. Without any, the authorities this machine trusts count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Authorities that are trusted instead of the machine's, PEM.
    pub ca_file: Option<PathBuf>,
    /// The certificate that is shown to a host that asks for one, PEM, with those between it and its authority.
    pub cert_file: Option<PathBuf>,
    /// The key of that certificate, PEM.
    pub key_file: Option<PathBuf>,
}

impl TlsOptions {
    /// Reads the files.
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>> {
        let broken = |source| Error::internal("TLS cannot be set up").with_source(source);
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(broken)?
            .with_root_certificates(self.roots()?);
        let config = match (&self.cert_file, &self.key_file) {
            (None, None) => config.with_no_client_auth(),
            (Some(cert_file), Some(key_file)) => {
                let chain = certificates("cert_file", cert_file)?;
                let key = PrivateKeyDer::from_pem_file(key_file)
                    .map_err(|error| unusable("key_file", key_file, "a private key", &error))?;
                config
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| unusable("key_file", key_file, "the key of the certificate", &error))?
            }
            (Some(_), None) => return Err(half("key_file", "there is a client certificate and no key")),
            (None, Some(_)) => return Err(half("cert_file", "there is a client key and no certificate")),
        };
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let Some(file) = &self.ca_file else {
            // What cannot be read of the machine's store is not trusted, and the handshake says so.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return Ok(roots);
        };
        for certificate in certificates("ca_file", file)? {
            roots.add(certificate).map_err(|error| unusable("ca_file", file, "an authority", &error))?;
        }
        Ok(roots)
    }
}

fn certificates(field: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let refuse = |error: rustls_pki_types::pem::Error| unusable(field, file, "certificates", &error);
    let found: Vec<_> =
        CertificateDer::pem_file_iter(file).map_err(refuse)?.collect::<std::result::Result<_, _>>().map_err(refuse)?;
    if found.is_empty() {
        return Err(unusable(field, file, "certificates", &"there is none in it"));
    }
    Ok(found)
}

fn unusable(field: &'static str, file: &Path, what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::invalid(field, format!("`{}` could not be read as {what} — {why}", file.display()))
        .with_hint("give a PEM file this user can read")
}

fn half(field: &'static str, message: &str) -> Error {
    Error::invalid(field, message).with_hint("give both, or neither")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let garbage = directory.path().join("garbage.pem");
        std::fs::write(&garbage, "not PEM at all").unwrap();
        let missing = directory.path().join("missing.pem");
        for file in [garbage, missing] {
            let options = TlsOptions { ca_file: Some(file.clone()), ..Default::default() };
            let error = options.load().unwrap_err();
            assert_eq!(error.field(), Some("ca_file"));
            assert!(error.to_string().contains(&*file.to_string_lossy()), "{error}");
        }
        let options = TlsOptions { cert_file: Some("cert.pem".into()), ..Default::default() };
        assert_eq!(options.load().unwrap_err().field(), Some("key_file"));
        let options = TlsOptions { key_file: Some("key.pem".into()), ..Default::default() };
        assert_eq!(options.load().unwrap_err().field(), Some("cert_file"));
        TlsOptions::default().load().unwrap();
    }
}
