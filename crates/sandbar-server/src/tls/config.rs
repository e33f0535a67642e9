//! What the port is told about TLS.

use std::path::PathBuf;

use crate::tls::LocalIdentity;

/// How the port proves who it is, and what it asks of callers.
#[derive(Debug)]
pub struct TlsConfig {
    pub identity: TlsIdentity,
    /// Authorities in PEM. When given, only who has a certificate of one of them is let in.
    pub client_ca: Option<PathBuf>,
}

/// Who the port says it is.
#[derive(Debug)]
pub enum TlsIdentity {
    /// What files in PEM say: the certificate with those it needs to be traced to an authority, and its key.
    Files { certificate: PathBuf, key: PathBuf },
    /// What an authority of this machine's own vouches for.
    Local(LocalIdentity),
}
