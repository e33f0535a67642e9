//! The certificate authority of one session.

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use sandbar_core::{DomainName, Result};
use sandbar_x509::{ServerKey, SubjectName};

use super::certificate_cache::CertificateCache;

const CA_LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);
const SERVER_LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Certificate authority of one session. Its key exists only in memory, for the lifetime of the
/// session; only the session's box trusts it.
pub struct Authority {
    issuer: sandbar_x509::Authority,
    /// One key for all hosts. Separate keys would add nothing: all of them are in the memory of the
    /// gateway.
    server_key: ServerKey,
    servers: CertificateCache,
}

impl Authority {
    pub fn new(session: &str) -> Result<Self> {
        let issuer =
            sandbar_x509::Authority::new(&format!("Sandbar session {session}"), CA_LIFETIME)?;
        Ok(Self {
            issuer,
            server_key: ServerKey::new()?,
            servers: CertificateCache::default(),
        })
    }

    /// Returns the CA certificate that the box must trust.
    pub fn certificate_pem(&self) -> &str {
        self.issuer.certificate_pem()
    }

    /// Returns the configuration of a TLS server that is this host for the session.
    pub(crate) fn server_config(&self, host: &DomainName) -> Result<Arc<ServerConfig>> {
        self.servers.get_or_issue(host, Timestamp::now(), || {
            let names = [SubjectName::Dns(host.as_str().to_owned())];
            self.issuer
                .certify(&names, &self.server_key, SERVER_LIFETIME)
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.issuer.fmt(f)
    }
}
