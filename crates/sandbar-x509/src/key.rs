//! Keys that sign.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use sandbar_core::{Error, Result};

/// A fresh P-256 key.
pub(crate) fn new_key() -> Result<EcdsaKeyPair> {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(|_| Error::internal("make a key for TLS"))
}

/// A key that was kept as PKCS #8.
pub(crate) fn key_from_pkcs8(pkcs8: &[u8]) -> Result<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8)
        .map_err(|source| Error::internal("this is no P-256 key").with_source(source))
}
