//! Certificates and keys as text.

use aws_lc_rs::signature::EcdsaKeyPair;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sandbar_core::{Error, Result};

/// A certificate as text.
pub(crate) fn certificate_pem(certificate: &[u8]) -> String {
    pem("CERTIFICATE", certificate)
}

/// A key as text, in PKCS #8.
pub(crate) fn private_key_pem(key: &EcdsaKeyPair) -> Result<String> {
    let private = key.to_pkcs8v1().map_err(|_| Error::internal("write a key for TLS"))?;
    Ok(pem("PRIVATE KEY", private.as_ref()))
}

/// In lines of 64 characters, as some readers insist.
fn pem(label: &str, content: &[u8]) -> String {
    let digits = STANDARD.encode(content);
    let lines = digits.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let body = lines.fold(String::new(), |body, line| body + &line + "\n");
    format!("-----BEGIN {label}-----\n{body}-----END {label}-----\n")
}
