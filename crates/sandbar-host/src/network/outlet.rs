//! [`Outlet`]: the egress side of the network of one box.

use std::sync::Arc;

use sandbar_core::{NetworkPolicy, Result, SessionId};
use sandbar_egress::{Authority, EgressListener, SessionHooks, TrafficCounters};
use sandbar_runtime::{BoxNetwork, Sandbox, Trust};
use sandbar_tree::SessionTree;

use super::trust::trust;
use crate::engine::Engine;

/// Network configuration to create a box with.
#[derive(Debug)]
pub(crate) struct NetworkPlan {
    /// `None`: the box has no network, or the runtime cannot enforce a policy.
    open: Option<OpenPlan>,
}

#[derive(Debug)]
struct OpenPlan {
    policy: NetworkPolicy,
    authority: Option<Arc<Authority>>,
    trust: Option<Trust>,
}

impl NetworkPlan {
    /// Plans the network of a box with this policy. A session CA is created for the box if the
    /// policy inspects TLS; its key is kept in memory only.
    pub(crate) fn new(
        engine: &Engine,
        session: &SessionId,
        policy: Option<&NetworkPolicy>,
        tree: impl FnOnce() -> Result<SessionTree>,
    ) -> Result<Self> {
        let Some(policy) = policy.filter(|policy| engine.opens(policy)) else {
            return Ok(Self { open: None });
        };
        let mut plan = OpenPlan {
            policy: policy.clone(),
            authority: None,
            trust: None,
        };
        if policy.intercepts() {
            let authority = Authority::new(session.as_str())?;
            plan.trust = Some(trust(&tree()?, authority.certificate_pem()));
            plan.authority = Some(Arc::new(authority));
        }
        Ok(Self { open: Some(plan) })
    }

    pub(crate) const fn network(&self) -> BoxNetwork {
        if self.open.is_some() {
            BoxNetwork::Egress
        } else {
            BoxNetwork::Closed
        }
    }

    pub(crate) fn trust(&self) -> Option<&Trust> {
        self.open.as_ref().and_then(|plan| plan.trust.as_ref())
    }

    /// Opens the network of the box that was created with this plan.
    pub(crate) fn open(
        self,
        engine: &Engine,
        sandbox: &dyn Sandbox,
        site: &Site,
    ) -> Result<Option<Outlet>> {
        let open =
            |plan: OpenPlan| Outlet::open(engine, sandbox, site, plan.policy, plan.authority);
        self.open.map(open).transpose()
    }
}

/// The session that a network belongs to.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) session: SessionId,
    pub(crate) traffic: Arc<TrafficCounters>,
}

/// The netns listeners of a box, attached to the egress gateway.
#[derive(Debug)]
pub(crate) struct Outlet {
    listener: EgressListener,
    udp_ports: Vec<u16>,
    /// Whether the box trusts a session CA.
    pub(crate) inspects_tls: bool,
}

impl Outlet {
    fn open(
        engine: &Engine,
        sandbox: &dyn Sandbox,
        site: &Site,
        policy: NetworkPolicy,
        authority: Option<Arc<Authority>>,
    ) -> Result<Self> {
        let gateway = engine.gateway.get()?;
        let udp_ports = policy.udp_ports();
        let sockets = sandbox.open_listeners(&udp_ports)?;
        let inspects_tls = authority.is_some();
        let hooks = SessionHooks {
            policy,
            sink: engine.decisions.sink(&site.session),
            secrets: Arc::clone(&engine.secrets) as _,
            authority,
            traffic: Arc::clone(&site.traffic),
        };
        Ok(Self {
            listener: gateway.attach(sockets, hooks)?,
            udp_ports,
            inspects_tls,
        })
    }

    /// Opens the network of a running box that was created without one.
    pub(crate) fn open_late(
        engine: &Engine,
        sandbox: &dyn Sandbox,
        site: &Site,
        policy: &NetworkPolicy,
    ) -> Result<Self> {
        Self::open(engine, sandbox, site, policy.clone(), None)
    }

    /// Applies a policy to new connections. After an error the old one stays in force.
    pub(crate) fn set_policy(
        &mut self,
        sandbox: &dyn Sandbox,
        policy: &NetworkPolicy,
    ) -> Result<()> {
        let udp_ports = policy.udp_ports();
        // Sockets of UDP ports that the new policy lacks stay open, and the gateway refuses their
        // packets, so that narrowing a policy cannot fail.
        if udp_ports.iter().any(|port| !self.udp_ports.contains(port)) {
            self.listener.set_udp(sandbox.reopen_udp(&udp_ports)?);
            self.udp_ports = udp_ports;
        }
        self.listener.set_policy(policy.clone());
        Ok(())
    }

    /// Closes every connection and waits until its last decision is recorded; blocks the thread.
    pub(crate) fn close(self) {
        self.listener.close();
        tokio::runtime::Handle::current().block_on(self.listener.closed());
    }
}
