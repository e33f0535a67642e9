//! The authority that one session trusts.

use std::{fmt, ops::RangeInclusive, sync::Arc};

use aws_lc_rs::signature::{EcdsaKeyPair, KeyPair};
use jiff::{SignedDuration, Timestamp};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs::sign::any_ecdsa_type,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::{CertifiedKey, SigningKey},
};
use sandbar_core::{DomainName, Error, Result};
use sandbar_x509::{LONGEST_COMMON_NAME, Purpose, Statement, SubjectName, certificate_pem, new_key};

use super::certificates::Certificates;

const DAY: SignedDuration = SignedDuration::from_hours(24);
const LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);
const LIFE_OF_A_SERVER: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A certificate authority that lives in memory as long as its session does, and is trusted by nobody else.
pub struct Authority {
    key: EcdsaKeyPair,
    name: String,
    valid: RangeInclusive<Timestamp>,
    certificate_pem: String,
    server_key: ServerKey,
    servers: Certificates,
}

/// One key serves all hosts: whoever gets it has the gateway already.
struct ServerKey {
    public: Vec<u8>,
    signing: Arc<dyn SigningKey>,
}

impl Authority {
    pub fn new(session: &str) -> Result<Self> {
        let key = new_key()?;
        let mut name = format!("Sandbar session {session}");
        name.truncate(name.floor_char_boundary(LONGEST_COMMON_NAME));
        let now = Timestamp::now();
        let valid = now - DAY..=now + LIFE;
        let certificate = Statement {
            issuer: &name,
            subject: &name,
            key: key.public_key().as_ref(),
            valid: valid.clone(),
            purpose: Purpose::Authority,
        }
        .sign(&key)?;
        let server_key = ServerKey::new()?;
        let certificate_pem = certificate_pem(&certificate);
        Ok(Self { key, name, valid, certificate_pem, server_key, servers: Certificates::default() })
    }

    /// What the session must trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// What a server needs to be this host for the session.
    pub(crate) fn server_config(&self, host: &DomainName) -> Result<Arc<ServerConfig>> {
        self.servers.of(host, Timestamp::now(), |valid_from| {
            let valid = valid_from - DAY..=(valid_from + LIFE_OF_A_SERVER).min(*self.valid.end());
            let expires = *valid.end();
            let certificate = Statement {
                issuer: &self.name,
                subject: if host.as_str().len() > LONGEST_COMMON_NAME { "Sandbar" } else { host.as_str() },
                key: &self.server_key.public,
                valid: *valid.start().max(self.valid.start())..=expires,
                purpose: Purpose::Server { names: &[SubjectName::Dns(host.as_str().to_owned())] },
            }
            .sign(&self.key)?;
            let chain = vec![CertificateDer::from(certificate)];
            Ok((CertifiedKey::new(chain, Arc::clone(&self.server_key.signing)), expires))
        })
    }
}

impl ServerKey {
    fn new() -> Result<Self> {
        let key = new_key()?;
        let public = key.public_key().as_ref().to_vec();
        let private = key.to_pkcs8v1().map_err(|_| Error::internal("write a key for TLS"))?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(private.as_ref()));
        let signing =
            any_ecdsa_type(&private).map_err(|source| Error::internal("use a key for TLS").with_source(source))?;
        Ok(Self { public, signing })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("name", &self.name).finish_non_exhaustive()
    }
}
