//! TLS configuration.

use std::path::PathBuf;

use crate::tls::LocalIdentity;

/// TLS configuration of the port.
#[derive(Debug)]
pub struct TlsConfig {
    pub identity: TlsIdentity,
    /// PEM file with CA certificates. When set, clients need a certificate of one of them (mTLS).
    pub client_ca: Option<PathBuf>,
}

/// Source of the server certificate.
#[derive(Debug)]
pub enum TlsIdentity {
    /// PEM files: the certificate with its intermediates, and the private key.
    Files { certificate: PathBuf, key: PathBuf },
    /// Certificates issued by the local CA of this machine.
    Local(LocalIdentity),
}
