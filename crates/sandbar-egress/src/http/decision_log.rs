//! Records the decisions of one connection, each once.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use sandbar_core::{MutexExt as _, NetworkDecision, NetworkProtocol, NetworkVerdict, SecretName};

use super::{Origin, reply::Reply};
use crate::{egress_context::EgressContext, sniff::HostPort};

/// Number of remembered hosts after which the log starts over: a connection to the proxy may last
/// for ever.
const MAX_REMEMBERED: usize = 1024;

/// Records each combination of host, verdict and secrets the first time it occurs.
pub(super) struct DecisionLog {
    context: Arc<dyn EgressContext>,
    protocol: NetworkProtocol,
    recorded: Mutex<HashSet<(HostPort, NetworkVerdict, Vec<SecretName>)>>,
}

impl DecisionLog {
    pub(super) fn new(context: Arc<dyn EgressContext>, origin: &Origin) -> Self {
        let protocol = match origin {
            Origin::Explicit => NetworkProtocol::Proxy,
            Origin::Transparent { .. } => NetworkProtocol::Http,
            Origin::Intercepted { .. } => NetworkProtocol::Tls,
        };
        Self {
            context,
            protocol,
            recorded: Mutex::default(),
        }
    }

    pub(super) fn allowed(
        &self,
        target: &HostPort,
        address: Option<SocketAddr>,
        reason: &str,
        secrets: Vec<SecretName>,
    ) {
        self.record(NetworkVerdict::Allow, target, address, reason, secrets);
    }

    pub(super) fn denied(&self, target: &HostPort, reason: &str) {
        self.record(NetworkVerdict::Deny, target, None, reason, Vec::new());
    }

    /// Records a request without a usable host, as a denial of the host of its connection.
    pub(super) fn refused(&self, origin: &Origin, reply: &Reply) {
        let target = match (reply, origin) {
            (Reply::Misdirected { host }, _) => host.clone(),
            (_, Origin::Transparent { to }) => HostPort::Address(*to),
            (_, Origin::Intercepted { name, port }) => HostPort::Name(name.clone(), *port),
            // A request to the proxy without a target.
            (_, Origin::Explicit) => return,
        };
        let reason = match reply {
            Reply::Bad(why) => why,
            _ => "the connection was opened for another host",
        };
        self.denied(&target, reason);
    }

    fn record(
        &self,
        verdict: NetworkVerdict,
        target: &HostPort,
        address: Option<SocketAddr>,
        reason: &str,
        secrets: Vec<SecretName>,
    ) {
        {
            let mut recorded = self.recorded.lock_unpoisoned();
            if recorded.len() >= MAX_REMEMBERED {
                recorded.clear();
            }
            if !recorded.insert((target.clone(), verdict, secrets.clone())) {
                return;
            }
        }
        let (host, address) = match target {
            HostPort::Name(name, _) => (Some(name.to_string()), address),
            HostPort::Address(address) => (None, Some(*address)),
        };
        self.context.record(NetworkDecision {
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
