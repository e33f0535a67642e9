//! State and services that the connections of one session share.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, RwLock},
};

use futures::future::{BoxFuture, join_all};
use sandbar_core::{
    DomainName, NetworkDecision, NetworkPolicy, NetworkProtocol, NetworkVerdict, RwLockExt as _,
    SecretName, SecretValue, Transport,
};
use sandbar_resolver::{LookupError, Resolver};
use tokio::{net::TcpStream, sync::OwnedSemaphorePermit};

use crate::{
    DecisionSink, Secrets, SessionHooks, TrafficCounters,
    dial::{connect, open_addresses},
    dns::KnownNames,
    egress_context::EgressContext,
    meter::Meter,
    refusal::Refusal,
    rules::{Rules, Verdict},
    shared::Shared,
    sniff::HostPort,
    tls::{Authority, UpstreamTls},
};

/// Egress of one session: its rules, limits, counters and callbacks.
#[derive(Debug)]
pub(crate) struct SessionEgress {
    shared: Arc<Shared>,
    rules: RwLock<Arc<Rules>>,
    meter: Arc<Meter>,
    traffic: Arc<TrafficCounters>,
    /// Names and addresses from DNS answers to this session.
    names: KnownNames,
    sink: Arc<dyn DecisionSink>,
    secrets: Arc<dyn Secrets>,
    authority: Option<Arc<Authority>>,
}

/// Destination of a connection attempt, for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) protocol: NetworkProtocol,
    pub(crate) host: Option<String>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) port: u16,
}

impl Attempt {
    pub(crate) const fn of(protocol: NetworkProtocol, port: u16) -> Self {
        Self {
            protocol,
            host: None,
            address: None,
            port,
        }
    }

    pub(crate) const fn at(protocol: NetworkProtocol, address: SocketAddr) -> Self {
        Self {
            protocol,
            host: None,
            address: Some(address),
            port: address.port(),
        }
    }
}

/// Verdict on a connection that does not state a host name.
#[derive(Clone, Debug)]
pub(crate) struct Unnamed {
    pub(crate) verdict: Verdict,
    /// Name that the session was given this address for by DNS.
    pub(crate) host: Option<DomainName>,
}

impl SessionEgress {
    pub(crate) fn new(shared: Arc<Shared>, hooks: SessionHooks) -> Self {
        let SessionHooks {
            policy,
            sink,
            secrets,
            authority,
            traffic,
        } = hooks;
        let meter = Arc::new(Meter::new(&policy.limits, Arc::clone(&traffic)));
        let rules = RwLock::new(Arc::new(Rules::new(policy)));
        Self {
            shared,
            rules,
            meter,
            traffic,
            names: KnownNames::default(),
            sink,
            secrets,
            authority,
        }
    }

    /// Replaces the policy. Its rules apply to new connections, its limits to all.
    pub(crate) fn set_policy(&self, policy: NetworkPolicy) {
        self.meter.set_limits(&policy.limits);
        *self.rules.write_unpoisoned() = Arc::new(Rules::new(policy));
    }

    /// Returns a permit for one more connection; `None` at the limit of the host.
    pub(crate) fn connection_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.connection_permit()
    }

    pub(crate) const fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    pub(crate) fn resolver(&self) -> &Resolver {
        &self.shared.resolver
    }

    pub(crate) const fn names(&self) -> &KnownNames {
        &self.names
    }

    /// Judges a connection that does not state a host name: it is allowed if the address itself is
    /// open, or if DNS gave this session the address for an allowed name.
    pub(crate) fn unnamed(&self, rules: &Rules, transport: Transport, to: SocketAddr) -> Unnamed {
        let own = self.own_addresses();
        let by_address = rules.address(transport, to.ip(), to.port(), &own);
        if by_address.is_allowed() {
            return Unnamed {
                verdict: by_address,
                host: None,
            };
        }
        let names = self.names.names_of(to.ip());
        for name in &names {
            let by_name = rules.name(transport, name, to.port());
            if by_name.is_allowed() {
                let resolved = rules.resolved(transport, to.ip(), to.port(), &own);
                let verdict = if resolved.is_allowed() {
                    by_name
                } else {
                    resolved
                };
                return Unnamed {
                    verdict,
                    host: Some(name.clone()),
                };
            }
        }
        Unnamed {
            verdict: by_address,
            host: names.into_iter().next(),
        }
    }

    /// Connects to an allowed name, at an address that the gateway itself has resolved. `chosen`,
    /// the address the session connected to, is preferred if it is among them and ignored
    /// otherwise.
    pub(crate) async fn dial_name(
        &self,
        rules: &Rules,
        name: &DomainName,
        port: u16,
        chosen: Option<IpAddr>,
    ) -> Result<(TcpStream, SocketAddr), Refusal> {
        let found = self.shared.resolver.lookup(name).await.map_err(|error| {
            Refusal::unreachable(match error {
                LookupError::NotFound => "the name has no address".to_owned(),
                LookupError::Failed(why) => format!("the lookup of the name failed: {why}"),
            })
        })?;
        let open = open_addresses(&found, port, chosen, rules, &self.own_addresses())?;
        connect(&open).await
    }

    /// Connects to an allowed address for a connection that does not state a host name.
    pub(crate) async fn dial_address(
        &self,
        rules: &Rules,
        to: SocketAddr,
    ) -> Result<(TcpStream, SocketAddr), Refusal> {
        match self.denied_host_at(rules, to).await {
            Some(host) => Err(Refusal::denied(format!(
                "address of the denied host `{host}`"
            ))),
            None => connect(&[to]).await,
        }
    }

    /// Returns a host of the deny list that has this address, so that a denied host cannot be
    /// reached by leaving out its name. Hosts that do not resolve are skipped.
    pub(crate) async fn denied_host_at(&self, rules: &Rules, to: SocketAddr) -> Option<DomainName> {
        let lookups = rules.denied_hosts(to.port()).map(async |host| {
            let found = self.shared.resolver.lookup(host).await.ok()?;
            found
                .iter()
                .any(|address| address.to_canonical() == to.ip().to_canonical())
                .then(|| host.clone())
        });
        join_all(lookups).await.into_iter().flatten().next()
    }

    pub(crate) fn allow(&self, attempt: Attempt, reason: &str) {
        self.decided(NetworkVerdict::Allow, attempt, reason.to_owned());
    }

    /// Records a destination that is allowed and could not be reached.
    pub(crate) fn allow_unreached(&self, attempt: Attempt, reason: &str, obstacle: &str) {
        self.decided(
            NetworkVerdict::Allow,
            attempt,
            format!("{reason}; not reached: {obstacle}"),
        );
    }

    pub(crate) fn deny(&self, attempt: Attempt, reason: &str) {
        self.decided(NetworkVerdict::Deny, attempt, reason.to_owned());
    }

    fn decided(&self, verdict: NetworkVerdict, attempt: Attempt, reason: String) {
        let Attempt {
            protocol,
            host,
            address,
            port,
        } = attempt;
        self.record(NetworkDecision {
            verdict,
            protocol,
            host,
            address,
            port,
            reason,
            secrets: Vec::new(),
        });
    }
}

impl EgressContext for SessionEgress {
    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read_unpoisoned())
    }

    fn own_addresses(&self) -> Arc<[IpAddr]> {
        self.shared.host_addresses.now()
    }

    fn record(&self, decision: NetworkDecision) {
        self.traffic.decided(decision.verdict);
        self.sink.decided(decision);
    }

    fn secret(&self, name: &SecretName) -> Option<SecretValue> {
        self.secrets.secret(name)
    }

    fn dial<'a>(
        &'a self,
        target: &'a HostPort,
    ) -> BoxFuture<'a, Result<(TcpStream, SocketAddr), Refusal>> {
        Box::pin(async move {
            let rules = self.rules();
            let verdict = match target {
                HostPort::Name(name, port) => rules.name(Transport::Tcp, name, *port),
                HostPort::Address(address) => rules.address(
                    Transport::Tcp,
                    address.ip(),
                    address.port(),
                    &self.own_addresses(),
                ),
            };
            if !verdict.is_allowed() {
                return Err(Refusal::denied(verdict.reason().to_owned()));
            }
            match target {
                HostPort::Name(name, port) => self.dial_name(&rules, name, *port, None).await,
                HostPort::Address(address) => self.dial_address(&rules, *address).await,
            }
        })
    }

    fn upstream_tls(&self) -> &UpstreamTls {
        &self.shared.upstream_tls
    }

    fn authority(&self) -> Option<&Arc<Authority>> {
        self.authority.as_ref()
    }
}
