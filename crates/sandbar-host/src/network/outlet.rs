//! The open network of one box.

use std::sync::Arc;

use sandbar_core::{NetworkPolicy, Result, SessionId};
use sandbar_net::{Authority, Gate, SessionHooks, TrafficCounters};
use sandbar_runtime::{BoxNetwork, Sandbox, Trust};
use sandbar_storage::SessionTree;

use super::trust::trust;
use crate::host::Inner;

/// What a box is to be made with of a network.
#[derive(Debug)]
pub(crate) struct NetworkPlan {
    /// `None`: the box is closed, or the runtime cannot keep a policy and the session was made all the same.
    open: Option<OpenPlan>,
}

#[derive(Debug)]
struct OpenPlan {
    policy: NetworkPolicy,
    authority: Option<Arc<Authority>>,
    trust: Option<Trust>,
}

impl NetworkPlan {
    /// For a session with this policy. An authority exists for one box, in memory.
    pub(crate) fn new(
        inner: &Inner,
        session: &SessionId,
        policy: Option<&NetworkPolicy>,
        tree: impl FnOnce() -> Result<SessionTree>,
    ) -> Result<Self> {
        let Some(policy) = policy.filter(|policy| inner.opens(policy)) else { return Ok(Self { open: None }) };
        let mut plan = OpenPlan { policy: policy.clone(), authority: None, trust: None };
        if policy.intercepts() {
            let authority = Authority::new(session.as_str())?;
            plan.trust = Some(trust(&tree()?, authority.certificate_pem()));
            plan.authority = Some(Arc::new(authority));
        }
        Ok(Self { open: Some(plan) })
    }

    pub(crate) const fn network(&self) -> BoxNetwork {
        if self.open.is_some() { BoxNetwork::Gated } else { BoxNetwork::Closed }
    }

    pub(crate) fn trust(&self) -> Option<&Trust> {
        self.open.as_ref().and_then(|plan| plan.trust.as_ref())
    }

    /// Opens the network of the box that was made by this plan.
    pub(crate) fn open(self, inner: &Inner, sandbox: &dyn Sandbox, site: &Site) -> Result<Option<Outlet>> {
        let open = |plan: OpenPlan| Outlet::open(inner, sandbox, site, plan.policy, plan.authority);
        self.open.map(open).transpose()
    }
}

/// Whose network it is.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) session: SessionId,
    pub(crate) traffic: Arc<TrafficCounters>,
}

/// The gate of a box, and what serves its other side.
#[derive(Debug)]
pub(crate) struct Outlet {
    gate: Gate,
    udp_ports: Vec<u16>,
    /// The box trusts an authority of ours.
    pub(crate) looks_into_tls: bool,
}

impl Outlet {
    fn open(
        inner: &Inner,
        sandbox: &dyn Sandbox,
        site: &Site,
        policy: NetworkPolicy,
        authority: Option<Arc<Authority>>,
    ) -> Result<Self> {
        let gateway = inner.gateway.get()?;
        let udp_ports = policy.udp_ports();
        let sockets = sandbox.open_gate(&udp_ports)?;
        let looks_into_tls = authority.is_some();
        let hooks = SessionHooks {
            policy,
            sink: inner.decisions.sink(&site.session),
            secrets: Arc::clone(&inner.secrets) as _,
            authority,
            traffic: Arc::clone(&site.traffic),
        };
        Ok(Self { gate: gateway.attach(sockets, hooks)?, udp_ports, looks_into_tls })
    }

    /// Opens the network of a box that runs and was closed until now.
    pub(crate) fn open_late(inner: &Inner, sandbox: &dyn Sandbox, site: &Site, policy: &NetworkPolicy) -> Result<Self> {
        Self::open(inner, sandbox, site, policy.clone(), None)
    }

    /// From now on, new connections go by this policy. When that fails, they go by the one before.
    pub(crate) fn set_policy(&mut self, sandbox: &dyn Sandbox, policy: &NetworkPolicy) -> Result<()> {
        let udp_ports = policy.udp_ports();
        // Ports that are closed again stay with the host, which refuses them: what narrows a policy cannot fail.
        if udp_ports.iter().any(|port| !self.udp_ports.contains(port)) {
            self.gate.set_udp(sandbox.reopen_udp(&udp_ports)?);
            self.udp_ports = udp_ports;
        }
        self.gate.set_policy(policy.clone());
        Ok(())
    }

    /// Ends every connection, and waits until the last decision is told. On a thread that may block.
    pub(crate) fn close(self) {
        self.gate.close();
        tokio::runtime::Handle::current().block_on(self.gate.closed());
    }
}
