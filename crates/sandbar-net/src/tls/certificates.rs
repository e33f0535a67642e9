//! The hosts an authority has spoken for, remembered.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    server::{NoServerSessionStorage, ResolvesServerCert},
    sign::CertifiedKey,
};
use sandbar_core::{DomainName, Error, Result};

/// More hosts than this are forgotten, the oldest first.
const MOST_HOSTS: usize = 1024;
/// A certificate that ends sooner is made again.
const LEAST_LIFE: SignedDuration = SignedDuration::from_hours(24);

/// What servers of these hosts need, by host.
#[derive(Debug, Default)]
pub(super) struct Certificates(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    hosts: HashMap<DomainName, Server>,
    /// By age.
    order: VecDeque<DomainName>,
}

#[derive(Clone, Debug)]
struct Server {
    config: Arc<ServerConfig>,
    expires: Timestamp,
}

impl Certificates {
    /// What is known of the host, or what `mint` makes now: a certificate, and when it ends.
    pub(super) fn of(
        &self,
        host: &DomainName,
        now: Timestamp,
        mint: impl FnOnce() -> Result<(CertifiedKey, Timestamp)>,
    ) -> Result<Arc<ServerConfig>> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = known().hosts.get(host).filter(|server| server.expires - LEAST_LIFE > now) {
            return Ok(Arc::clone(&server.config));
        }
        // Two may do this at once; the later one counts.
        let (certificate, expires) = mint()?;
        let config = Arc::new(server_config(certificate)?);
        known().keep(host, Server { config: Arc::clone(&config), expires });
        Ok(config)
    }
}

impl Known {
    fn keep(&mut self, host: &DomainName, server: Server) {
        if self.hosts.insert(host.clone(), server).is_none() {
            self.order.push_back(host.clone());
        }
        if self.order.len() > MOST_HOSTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.hosts.remove(&oldest);
        }
    }
}

/// Whatever the client says, this is who the server is: the gate has judged the name already.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesServerCert for Always {
    fn resolve(&self, _hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn server_config(certificate: CertifiedKey) -> Result<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|source| Error::internal("set up TLS towards a session").with_source(source))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Always(Arc::new(certificate))));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A handshake is cheap here, and remembering sessions of a thousand hosts is not.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
