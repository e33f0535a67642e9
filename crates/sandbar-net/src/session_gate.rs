//! What the flows of one session share.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
};

use futures::future::{BoxFuture, join_all};
use sandbar_core::{
    DomainName, NetworkDecision, NetworkPolicy, NetworkProtocol, NetworkVerdict, SecretName, SecretValue, Transport,
};
use sandbar_resolver::{LookupError, Resolver};
use tokio::{net::TcpStream, sync::OwnedSemaphorePermit};

use crate::{
    DecisionSink, Secrets, TrafficCounters,
    dns::KnownNames,
    gate::{connect, open_addresses},
    gateway::{SessionHooks, Shared},
    http::{Outside, Refusal},
    meter::Meter,
    rules::{Rules, Verdict},
    sniff::HostPort,
    tls::{Authority, UpstreamTls},
};

/// One session at the gateway.
#[derive(Debug)]
pub(crate) struct SessionGate {
    shared: Arc<Shared>,
    rules: RwLock<Arc<Rules>>,
    meter: Arc<Meter>,
    traffic: Arc<TrafficCounters>,
    /// What DNS has told this session.
    names: KnownNames,
    sink: Arc<dyn DecisionSink>,
    secrets: Arc<dyn Secrets>,
    authority: Option<Arc<Authority>>,
}

/// What was tried, for the record.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) protocol: NetworkProtocol,
    pub(crate) host: Option<String>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) port: u16,
}

impl Attempt {
    pub(crate) const fn of(protocol: NetworkProtocol, port: u16) -> Self {
        Self { protocol, host: None, address: None, port }
    }

    pub(crate) const fn at(protocol: NetworkProtocol, address: SocketAddr) -> Self {
        Self { protocol, host: None, address: Some(address), port: address.port() }
    }
}

/// What holds for something that does not say a name itself.
#[derive(Clone, Debug)]
pub(crate) struct Unnamed {
    pub(crate) verdict: Verdict,
    /// The name that led the session there, as far as DNS knows.
    pub(crate) host: Option<DomainName>,
}

impl SessionGate {
    pub(crate) fn new(shared: Arc<Shared>, hooks: SessionHooks) -> Self {
        let SessionHooks { policy, sink, secrets, authority, traffic } = hooks;
        let meter = Arc::new(Meter::new(&policy.limits, Arc::clone(&traffic)));
        let rules = RwLock::new(Arc::new(Rules::new(policy)));
        Self { shared, rules, meter, traffic, names: KnownNames::default(), sink, secrets, authority }
    }

    /// Counts for what begins from now on; its limits for everything.
    pub(crate) fn set_policy(&self, policy: NetworkPolicy) {
        self.meter.set_limits(&policy.limits);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Rules::new(policy));
    }

    /// A place among the connections of the whole host.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.place()
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

    /// Whether an address may be reached by something that says no name: because it is open itself, or because DNS has told
    /// this session that an allowed name leads there.
    pub(crate) fn unnamed(&self, rules: &Rules, transport: Transport, to: SocketAddr) -> Unnamed {
        let own = self.own_addresses();
        let by_address = rules.address(transport, to.ip(), to.port(), &own);
        if by_address.is_allowed() {
            return Unnamed { verdict: by_address, host: None };
        }
        let names = self.names.names_of(to.ip());
        for name in &names {
            let by_name = rules.name(transport, name, to.port());
            if by_name.is_allowed() {
                let resolved = rules.resolved(transport, to.ip(), to.port(), &own);
                let verdict = if resolved.is_allowed() { by_name } else { resolved };
                return Unnamed { verdict, host: Some(name.clone()) };
            }
        }
        Unnamed { verdict: by_address, host: names.into_iter().next() }
    }

    /// Connects to an allowed name: to one of the addresses it leads to for the gateway, and the chosen one if that is among
    /// them.
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
                LookupError::Failed(why) => format!("the name was not found: {why}"),
            })
        })?;
        let open = open_addresses(&found, port, chosen, rules, &self.own_addresses())?;
        connect(&open).await
    }

    /// Connects to an address for something that says no name.
    pub(crate) async fn dial_address(&self, rules: &Rules, to: SocketAddr) -> Result<(TcpStream, SocketAddr), Refusal> {
        match self.denied_host_at(rules, to).await {
            Some(host) => Err(Refusal::denied(format!("an address of `{host}`, which is denied"))),
            None => connect(&[to]).await,
        }
    }

    /// A host the deny list names that has this address: leaving out its name does not get there. One that cannot be found
    /// has none.
    pub(crate) async fn denied_host_at(&self, rules: &Rules, to: SocketAddr) -> Option<DomainName> {
        let lookups = rules.denied_hosts(to.port()).map(async |host| {
            let found = self.shared.resolver.lookup(host).await.ok()?;
            found.iter().any(|address| address.to_canonical() == to.ip().to_canonical()).then(|| host.clone())
        });
        join_all(lookups).await.into_iter().flatten().next()
    }

    pub(crate) fn allow(&self, attempt: Attempt, reason: &str) {
        self.decided(NetworkVerdict::Allow, attempt, reason.to_owned());
    }

    /// It may be reached, and could not be.
    pub(crate) fn allow_in_vain(&self, attempt: Attempt, reason: &str, obstacle: &str) {
        self.decided(NetworkVerdict::Allow, attempt, format!("{reason}; not reached: {obstacle}"));
    }

    pub(crate) fn deny(&self, attempt: Attempt, reason: &str) {
        self.decided(NetworkVerdict::Deny, attempt, reason.to_owned());
    }

    fn decided(&self, verdict: NetworkVerdict, attempt: Attempt, reason: String) {
        let Attempt { protocol, host, address, port } = attempt;
        self.record(NetworkDecision { verdict, protocol, host, address, port, reason, secrets: Vec::new() });
    }
}

impl Outside for SessionGate {
    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
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

    fn dial<'a>(&'a self, target: &'a HostPort) -> BoxFuture<'a, Result<(TcpStream, SocketAddr), Refusal>> {
        Box::pin(async move {
            let rules = self.rules();
            let verdict = match target {
                HostPort::Name(name, port) => rules.name(Transport::Tcp, name, *port),
                HostPort::Address(address) => {
                    rules.address(Transport::Tcp, address.ip(), address.port(), &self.own_addresses())
                }
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
