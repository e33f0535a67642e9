//! Certificates for this machine's own names, by an authority of its own.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use sandbar_core::Result;
use sandbar_x509::{Authority, ServerKey, SubjectName};

/// How long a certificate is valid. It is made again long before, and lives in memory only.
const LIFE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// One with less time left is made again.
const LEAST_LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Names of sessions that are remembered.
const MOST_NAMES: usize = 1024;

/// Who this machine is, and who says so.
#[derive(Debug)]
pub struct LocalIdentity {
    /// Clients have to trust it.
    pub authority: Authority,
    /// The names and addresses the port is reached by.
    pub names: Vec<SubjectName>,
    /// Names one label below this are those of sessions' ports.
    pub ingress_domain: String,
}

/// The certificates of a local identity, made when they are needed.
#[derive(Debug)]
pub(super) struct LocalCertificates {
    identity: LocalIdentity,
    key: ServerKey,
    /// By the name a client asked for; the empty one is the port's own.
    made: Mutex<HashMap<String, Made>>,
}

#[derive(Clone, Debug)]
struct Made {
    certificate: Arc<CertifiedKey>,
    until: Timestamp,
}

impl LocalCertificates {
    pub(super) fn new(identity: LocalIdentity) -> Result<Self> {
        let certificates = Self { identity, key: ServerKey::new()?, made: Mutex::default() };
        certificates.of("", Timestamp::now())?;
        Ok(certificates)
    }

    fn of(&self, name: &str, now: Timestamp) -> Result<Arc<CertifiedKey>> {
        let made = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made().get(name).filter(|known| known.until - LEAST_LIFE > now) {
            return Ok(Arc::clone(&known.certificate));
        }
        let own = [SubjectName::Dns(name.to_owned())];
        let names = if name.is_empty() { &self.identity.names[..] } else { &own };
        let (certificate, until) = self.identity.authority.certify(names, &self.key, LIFE)?;
        let certificate = Arc::new(certificate);
        let mut made = made();
        // They cost a signature each: forgetting all of them now and then is simpler than keeping an order.
        if made.len() >= MOST_NAMES {
            made.clear();
        }
        made.insert(name.to_owned(), Made { certificate: Arc::clone(&certificate), until });
        Ok(certificate)
    }

    /// Whether a name can be that of a session's port. Clients take no `*.localhost`, so each gets its own certificate.
    fn is_of_a_session(&self, name: &str) -> bool {
        let label = name.strip_suffix(&self.identity.ingress_domain).and_then(|rest| rest.strip_suffix('.'));
        label.is_some_and(|label| !label.is_empty() && !label.contains('.'))
    }
}

impl ResolvesServerCert for LocalCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().map(str::to_ascii_lowercase).filter(|name| self.is_of_a_session(name));
        let certificate = self.of(&asked.unwrap_or_default(), Timestamp::now());
        certificate.inspect_err(|error| tracing::error!("no certificate could be made: {}", error.chain())).ok()
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
    fn a_certificate_is_kept_until_it_is_about_to_run_out() {
        let certificates = certificates();
        let now = Timestamp::now();
        let first = certificates.of("", now).unwrap();
        assert!(Arc::ptr_eq(&first, &certificates.of("", now).unwrap()));
        let later = now + LIFE - LEAST_LIFE;
        assert!(!Arc::ptr_eq(&first, &certificates.of("", later).unwrap()));
    }

    #[test]
    fn names_of_sessions_are_one_label_below_the_domain() {
        let certificates = certificates();
        assert!(certificates.is_of_a_session("8000-box.localhost"));
        for other in ["localhost", ".localhost", "a.b.localhost", "xlocalhost", "localhost.example", ""] {
            assert!(!certificates.is_of_a_session(other), "{other}");
        }
    }

    #[test]
    fn however_many_names_are_asked_for_few_are_remembered() {
        let certificates = certificates();
        for number in 0..=MOST_NAMES {
            certificates.of(&format!("{number}.localhost"), Timestamp::now()).unwrap();
        }
        assert!(certificates.made.lock().unwrap().len() <= MOST_NAMES);
    }
}
