//! Certificates and keys, from files that people wrote.

use std::{fs, io, path::Path, sync::Arc};

use rustls::{
    RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use sandbar_core::{Error, ErrorCode, Result};

/// The key of the configuration that names the certificate.
const CERTIFICATE: &str = "tls_cert_file";
/// The one that names its key.
const KEY: &str = "tls_key_file";
/// The one that names the authorities of clients.
const CLIENT_CA: &str = "tls_client_ca_file";

/// A certificate with its key; the two belong together.
pub(super) fn certified_key(certificate: &Path, key: &Path) -> Result<CertifiedKey> {
    let chain = certificates(CERTIFICATE, certificate)?;
    let private = private_key(key)?;
    CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider()).map_err(|source| {
        use rustls::Error::{InconsistentKeys, InvalidCertificate};
        match source {
            InconsistentKeys(_) => Error::invalid(
                KEY,
                format!(
                    "the key in `{}` does not belong to the certificate in `{}`",
                    key.display(),
                    certificate.display()
                ),
            )
            .with_hint(
                "give `tls_key_file` the key the certificate was made with; the first certificate of the file counts",
            ),
            InvalidCertificate(_) => refuse(CERTIFICATE, certificate, "holds a certificate that cannot be read")
                .with_hint("give `tls_cert_file` the server's certificate in PEM")
                .with_source(source),
            _ => refuse(KEY, key, "holds a key that TLS has no use for")
                .with_hint("use an RSA key of at least 2048 bits, P-256, P-384 or Ed25519")
                .with_source(source),
        }
    })
}

/// The authorities whose certificates let clients in.
pub(super) fn client_roots(path: &Path) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(CLIENT_CA, path)? {
        roots.add(certificate).map_err(|source| {
            refuse(CLIENT_CA, path, "holds a certificate that cannot be an authority")
                .with_hint("give `tls_client_ca_file` the certificates of the authorities of clients, in PEM")
                .with_source(source)
        })?;
    }
    Ok(Arc::new(roots))
}

fn certificates(field: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = read(field, path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|source| unreadable(field, path).with_source(source))?;
    if found.is_empty() {
        return Err(unreadable(field, path));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    use rustls::pki_types::pem::Error::NoItemsFound;
    let text = read(KEY, path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|source| {
        let hint = "give `tls_key_file` an unencrypted private key in PEM, PKCS #8, PKCS #1 or SEC 1";
        let error = refuse(KEY, path, "holds no private key that can be read").with_hint(hint);
        if matches!(source, NoItemsFound) { error } else { error.with_source(source) }
    })
}

fn read(field: &'static str, path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|source| {
        let hint = match source.kind() {
            io::ErrorKind::NotFound => format!("give `{field}` the path of a file that is there"),
            io::ErrorKind::PermissionDenied => "let the user the host runs as read it".to_owned(),
            _ => format!("give `{field}` the path of a file that can be read"),
        };
        Error::new(ErrorCode::InvalidArgument, format!("could not read `{}`", path.display()))
            .with_field(field)
            .with_hint(hint)
            .with_source(source)
    })
}

fn unreadable(field: &'static str, path: &Path) -> Error {
    let hint = format!("give `{field}` a file in PEM: it has lines `-----BEGIN CERTIFICATE-----`");
    refuse(field, path, "holds no certificate that can be read").with_hint(hint)
}

fn refuse(field: &'static str, path: &Path, why: &str) -> Error {
    Error::invalid(field, format!("`{}` {why}", path.display()))
}
