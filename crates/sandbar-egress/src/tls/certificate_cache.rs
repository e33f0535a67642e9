//! Cache of the server certificates that a session CA has issued.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use jiff::{SignedDuration, Timestamp};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    server::{NoServerSessionStorage, ResolvesServerCert},
    sign::CertifiedKey,
};
use sandbar_core::{DomainName, Error, MutexExt as _, Result};

/// Number of hosts in the cache. The oldest is evicted.
const MAX_HOSTS: usize = 1024;
/// A certificate that expires sooner is issued again.
const MIN_REMAINING_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// TLS server configurations, by host.
#[derive(Debug, Default)]
pub(super) struct CertificateCache(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    hosts: HashMap<DomainName, Server>,
    /// Hosts in the order of insertion.
    order: VecDeque<DomainName>,
}

#[derive(Clone, Debug)]
struct Server {
    config: Arc<ServerConfig>,
    expires: Timestamp,
}

impl CertificateCache {
    /// Returns the configuration of a host. `issue` returns a certificate and its expiry for a host
    /// that is not in the cache.
    pub(super) fn get_or_issue(
        &self,
        host: &DomainName,
        now: Timestamp,
        issue: impl FnOnce() -> Result<(CertifiedKey, Timestamp)>,
    ) -> Result<Arc<ServerConfig>> {
        let known = || self.0.lock_unpoisoned();
        if let Some(server) = known()
            .hosts
            .get(host)
            .filter(|server| server.expires - MIN_REMAINING_LIFETIME > now)
        {
            return Ok(Arc::clone(&server.config));
        }
        // Not under the lock: two tasks may issue for one host, and the later one stays.
        let (certificate, expires) = issue()?;
        let config = Arc::new(server_config(certificate)?);
        known().insert(
            host,
            Server {
                config: Arc::clone(&config),
                expires,
            },
        );
        Ok(config)
    }
}

impl Known {
    fn insert(&mut self, host: &DomainName, server: Server) {
        if self.hosts.insert(host.clone(), server).is_none() {
            self.order.push_back(host.clone());
        }
        if self.order.len() > MAX_HOSTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.hosts.remove(&oldest);
        }
    }
}

/// Presents one certificate, whatever the SNI: the listener has judged the name already.
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
        .map_err(|source| Error::internal("set up TLS for a session").with_source(source))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Always(Arc::new(certificate))));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // No session resumption: handshakes on one machine are cheap, state for 1024 hosts is not.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
