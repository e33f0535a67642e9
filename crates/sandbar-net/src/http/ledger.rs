//! What was decided on one connection, told once.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use sandbar_core::{NetworkDecision, NetworkProtocol, NetworkVerdict, SecretName};

use super::{Origin, Outside, reply::Reply};
use crate::sniff::HostPort;

/// Past this many hosts the ledger begins anew: a connection through the proxy may go on for ever.
const MOST_REMEMBERED: usize = 1024;

/// Tells the gate of each (host, verdict) the first time it comes up.
pub(super) struct Ledger {
    outside: Arc<dyn Outside>,
    protocol: NetworkProtocol,
    told: Mutex<HashSet<(HostPort, NetworkVerdict, Vec<SecretName>)>>,
}

impl Ledger {
    pub(super) fn new(outside: Arc<dyn Outside>, origin: &Origin) -> Self {
        let protocol = match origin {
            Origin::Explicit => NetworkProtocol::Proxy,
            Origin::Transparent { .. } => NetworkProtocol::Http,
            Origin::Intercepted { .. } => NetworkProtocol::Tls,
        };
        Self { outside, protocol, told: Mutex::default() }
    }

    pub(super) fn allowed(
        &self,
        target: &HostPort,
        address: Option<SocketAddr>,
        reason: &str,
        secrets: Vec<SecretName>,
    ) {
        self.tell(NetworkVerdict::Allow, target, address, reason, secrets);
    }

    pub(super) fn denied(&self, target: &HostPort, reason: &str) {
        self.tell(NetworkVerdict::Deny, target, None, reason, Vec::new());
    }

    /// A request that names no host it could be judged by is held against its connection.
    pub(super) fn refused(&self, origin: &Origin, reply: &Reply) {
        let target = match (reply, origin) {
            (Reply::Misdirected { host }, _) => host.clone(),
            (_, Origin::Transparent { to }) => HostPort::Address(*to),
            (_, Origin::Intercepted { name, port }) => HostPort::Name(name.clone(), *port),
            // Nothing was named, and nothing was meant.
            (_, Origin::Explicit) => return,
        };
        let reason = match reply {
            Reply::Bad(why) => why,
            _ => "the connection was opened for another host",
        };
        self.denied(&target, reason);
    }

    fn tell(
        &self,
        verdict: NetworkVerdict,
        target: &HostPort,
        address: Option<SocketAddr>,
        reason: &str,
        secrets: Vec<SecretName>,
    ) {
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() >= MOST_REMEMBERED {
                told.clear();
            }
            if !told.insert((target.clone(), verdict, secrets.clone())) {
                return;
            }
        }
        let (host, address) = match target {
            HostPort::Name(name, _) => (Some(name.to_string()), address),
            HostPort::Address(meant) => (None, Some(*meant)),
        };
        self.outside.record(NetworkDecision {
            verdict,
            protocol: self.protocol,
            host,
            address,
            port: target.port(),
            reason: reason.to_owned(),
            secrets,
        });
    }
}
