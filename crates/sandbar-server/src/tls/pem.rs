//! Certificates and keys from PEM files.

use std::{fs, io, path::Path, sync::Arc};

use rustls::{
    RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use sandbar_core::{Error, ErrorCode, Result};

/// Configuration key of the certificate file.
const CERTIFICATE: &str = "tls_cert_file";
/// Configuration key of the private key file.
const KEY: &str = "tls_key_file";
/// Configuration key of the client CA file.
const CLIENT_CA: &str = "tls_client_ca_file";

/// Loads a certificate chain with its private key, and checks that they match.
pub(super) fn certified_key(certificate: &Path, key: &Path) -> Result<CertifiedKey> {
    let chain = certificates(CERTIFICATE, certificate)?;
    let private = private_key(key)?;
    CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider()).map_err(|source| {
        use rustls::Error::{InconsistentKeys, InvalidCertificate};
        match source {
            InconsistentKeys(_) => Error::invalid(
                KEY,
                format!(
                    "key in `{}` does not match the certificate in `{}`",
                    key.display(),
                    certificate.display()
                ),
            )
            .with_hint("set `tls_key_file` to the key of the first certificate in `tls_cert_file`"),
            InvalidCertificate(_) => {
                invalid_file(CERTIFICATE, certificate, "holds an invalid certificate")
                    .with_hint("set `tls_cert_file` to the server's certificate in PEM")
                    .with_source(source)
            }
            _ => invalid_file(KEY, key, "holds an unsupported key")
                .with_hint("use an RSA key of at least 2048 bits, P-256, P-384 or Ed25519")
                .with_source(source),
        }
    })
}

/// Loads the CA certificates that client certificates are verified against.
pub(super) fn client_roots(path: &Path) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(CLIENT_CA, path)? {
        roots.add(certificate).map_err(|source| {
            invalid_file(
                CLIENT_CA,
                path,
                "holds a certificate that is not a valid CA",
            )
            .with_hint("set `tls_client_ca_file` to the CA certificates of clients in PEM")
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
        let hint =
            "set `tls_key_file` to an unencrypted private key in PEM: PKCS #8, PKCS #1 or SEC 1";
        let error = invalid_file(KEY, path, "holds no readable private key").with_hint(hint);
        if matches!(source, NoItemsFound) {
            error
        } else {
            error.with_source(source)
        }
    })
}

fn read(field: &'static str, path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|source| {
        let hint = match source.kind() {
            io::ErrorKind::NotFound => format!("set `{field}` to the path of an existing file"),
            io::ErrorKind::PermissionDenied => {
                "make it readable for the user that the host runs as".to_owned()
            }
            _ => format!("set `{field}` to the path of a readable file"),
        };
        Error::new(
            ErrorCode::InvalidArgument,
            format!("could not read `{}`", path.display()),
        )
        .with_field(field)
        .with_hint(hint)
        .with_source(source)
    })
}

fn unreadable(field: &'static str, path: &Path) -> Error {
    let hint =
        format!("set `{field}` to a PEM file, which has lines `-----BEGIN CERTIFICATE-----`");
    invalid_file(field, path, "holds no readable certificate").with_hint(hint)
}

fn invalid_file(field: &'static str, path: &Path, problem: &str) -> Error {
    Error::invalid(field, format!("`{}` {problem}", path.display()))
}
