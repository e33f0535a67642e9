//! Certificates for names of this machine, issued by a local CA.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use jiff::{SignedDuration, Timestamp};
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use sandbar_core::{MutexExt as _, Result};
use sandbar_x509::{Authority, ServerKey, SubjectName};

/// Validity of a certificate. Certificates are in memory only, and renewed long before they expire.
const VALIDITY: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Remaining validity at which a certificate is renewed.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Limit on cached certificates for session names, which clients choose by SNI.
const MAX_CACHED_NAMES: usize = 1024;

/// Names of this machine, and the CA that certifies them.
#[derive(Debug)]
pub struct LocalIdentity {
    /// Local CA, which clients have to trust.
    pub authority: Authority,
    /// Names and addresses of the port.
    pub names: Vec<SubjectName>,
    /// Domain of session ports: their names are one label below it.
    pub ingress_domain: String,
}

/// Certificates of a local identity, issued on demand and cached.
#[derive(Debug)]
pub(super) struct LocalCertificates {
    identity: LocalIdentity,
    key: ServerKey,
    /// Keyed by SNI name; the empty name is the certificate of the port itself.
    cache: Mutex<HashMap<String, Cached>>,
}

#[derive(Clone, Debug)]
struct Cached {
    certificate: Arc<CertifiedKey>,
    valid_until: Timestamp,
}

impl LocalCertificates {
    pub(super) fn new(identity: LocalIdentity) -> Result<Self> {
        let certificates = Self {
            identity,
            key: ServerKey::new()?,
            cache: Mutex::default(),
        };
        certificates.of("", Timestamp::now())?;
        Ok(certificates)
    }

    fn of(&self, name: &str, now: Timestamp) -> Result<Arc<CertifiedKey>> {
        let cache = || self.cache.lock_unpoisoned();
        if let Some(cached) = cache()
            .get(name)
            .filter(|cached| cached.valid_until - RENEW_BEFORE > now)
        {
            return Ok(Arc::clone(&cached.certificate));
        }
        let own = [SubjectName::Dns(name.to_owned())];
        let names = if name.is_empty() {
            &self.identity.names[..]
        } else {
            &own
        };
        let (certificate, valid_until) = self
            .identity
            .authority
            .certify(names, &self.key, VALIDITY)?;
        let certificate = Arc::new(certificate);
        let mut cache = cache();
        // A certificate costs one signature, so clearing the whole cache is good enough.
        if cache.len() >= MAX_CACHED_NAMES {
            cache.clear();
        }
        cache.insert(
            name.to_owned(),
            Cached {
                certificate: Arc::clone(&certificate),
                valid_until,
            },
        );
        Ok(certificate)
    }

    /// Reports whether a name can be that of a session port. Clients do not accept the wildcard
    /// `*.localhost`, so each name gets its own certificate.
    fn is_session_name(&self, name: &str) -> bool {
        let label = name
            .strip_suffix(&self.identity.ingress_domain)
            .and_then(|rest| rest.strip_suffix('.'));
        label.is_some_and(|label| !label.is_empty() && !label.contains('.'))
    }
}

impl ResolvesServerCert for LocalCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let session_name = hello
            .server_name()
            .map(str::to_ascii_lowercase)
            .filter(|name| self.is_session_name(name));
        let certificate = self.of(&session_name.unwrap_or_default(), Timestamp::now());
        certificate
            .inspect_err(|error| {
                tracing::error!("could not issue a certificate: {}", error.chain());
            })
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificates() -> LocalCertificates {
        LocalCertificates::new(LocalIdentity {
            authority: Authority::new("test", SignedDuration::from_hours(3650 * 24)).unwrap(),
            names: vec![SubjectName::Dns("localhost".to_owned())],
            ingress_domain: "localhost".to_owned(),
        })
        .unwrap()
    }

    #[test]
    fn certificate_is_cached_until_it_is_due_for_renewal() {
        let certificates = certificates();
        let now = Timestamp::now();
        let first = certificates.of("", now).unwrap();
        assert!(Arc::ptr_eq(&first, &certificates.of("", now).unwrap()));
        let later = now + VALIDITY - RENEW_BEFORE;
        assert!(!Arc::ptr_eq(&first, &certificates.of("", later).unwrap()));
    }

    #[test]
    fn session_names_are_one_label_below_the_domain() {
        let certificates = certificates();
        assert!(certificates.is_session_name("8000-box.localhost"));
        for other in [
            "localhost",
            ".localhost",
            "a.b.localhost",
            "xlocalhost",
            "localhost.example",
            "",
        ] {
            assert!(!certificates.is_session_name(other), "{other}");
        }
    }

    #[test]
    fn certificate_cache_is_bounded() {
        let certificates = certificates();
        for number in 0..=MAX_CACHED_NAMES {
            certificates
                .of(&format!("{number}.localhost"), Timestamp::now())
                .unwrap();
        }
        assert!(certificates.cache.lock().unwrap().len() <= MAX_CACHED_NAMES);
    }
}
