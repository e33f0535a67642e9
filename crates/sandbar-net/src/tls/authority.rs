//! The authority that one session trusts.

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use sandbar_core::{DomainName, Result};
use sandbar_x509::{ServerKey, SubjectName};

use super::certificates::Certificates;

const LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);
const LIFE_OF_A_SERVER: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A certificate authority that lives in memory as long as its session does, and is trusted by nobody else.
pub struct Authority {
    issuer: sandbar_x509::Authority,
    /// One key serves all hosts: whoever gets it has the gateway already.
    server_key: ServerKey,
    servers: Certificates,
}

impl Authority {
    pub fn new(session: &str) -> Result<Self> {
        let issuer = sandbar_x509::Authority::new(&format!("Sandbar session {session}"), LIFE)?;
        Ok(Self { issuer, server_key: ServerKey::new()?, servers: Certificates::default() })
    }

    /// What the session must trust.
    pub fn certificate_pem(&self) -> &str {
        self.issuer.certificate_pem()
    }

    /// What a server needs to be this host for the session.
    pub(crate) fn server_config(&self, host: &DomainName) -> Result<Arc<ServerConfig>> {
        self.servers.of(host, Timestamp::now(), || {
            let names = [SubjectName::Dns(host.as_str().to_owned())];
            self.issuer.certify(&names, &self.server_key, LIFE_OF_A_SERVER)
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.issuer.fmt(f)
    }
}
