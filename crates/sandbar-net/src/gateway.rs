//! The gateway of a host, and the gates of its sessions.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use sandbar_core::{Error, NetworkPolicy, Result};
use sandbar_netns::{GateSockets, UdpGate};
use sandbar_resolver::Resolver;
use tokio::{
    net::TcpListener,
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::{
    Authority, DecisionSink, GatewaySettings, Secrets, TrafficCounters,
    gate::{GateDatagrams, Tasks, UdpFlows, accept, answer_datagrams},
    host_addresses::HostAddresses,
    session_gate::SessionGate,
    tls::UpstreamTls,
};

/// The way out for every session of a host.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
}

/// What the sessions of a host share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) resolver: Resolver,
    pub(crate) upstream_tls: UpstreamTls,
    pub(crate) host_addresses: HostAddresses,
    /// Connections of all sessions together, so that no session takes the descriptors of the whole host.
    places: Arc<Semaphore>,
}

/// A connection takes two descriptors, and two more for each direction in which much goes through: with one in sixteen,
/// sessions together take at most about a third of those this process may have.
const DESCRIPTORS_A_PLACE: u64 = 16;
const FEWEST_PLACES: usize = 64;

impl Shared {
    /// A place for one more connection of any session, if there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }
}

/// Resolves names for sessions: with the servers of the settings, or as this machine does.
fn resolver(settings: &GatewaySettings) -> Result<Resolver> {
    if let Some(server) = settings.dns_servers.iter().find(|server| server.port() == 0 || server.ip().is_unspecified())
    {
        return Err(Error::invalid("dns_servers", format!("no name server can be at `{server}`"))
            .with_hint("write an address and a port, such as `192.0.2.53:53`"));
    }
    Ok(if settings.dns_servers.is_empty() {
        Resolver::system()
    } else {
        Resolver::with_servers(settings.dns_servers.clone())
    })
}

fn places() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let places = usize::try_from(descriptors / DESCRIPTORS_A_PLACE).unwrap_or(usize::MAX);
    places.clamp(FEWEST_PLACES, Semaphore::MAX_PERMITS)
}

/// What a gate needs to know of its session.
#[derive(Debug)]
pub struct SessionHooks {
    pub policy: NetworkPolicy,
    pub sink: Arc<dyn DecisionSink>,
    pub secrets: Arc<dyn Secrets>,
    /// Whom the box trusts for TLS that is looked into. Without one, what would be looked into is refused.
    pub authority: Option<Arc<Authority>>,
    pub traffic: Arc<TrafficCounters>,
}

impl Gateway {
    pub fn open(settings: &GatewaySettings) -> Result<Arc<Self>> {
        let shared = Shared {
            resolver: resolver(settings)?,
            upstream_tls: UpstreamTls::new(settings)?,
            host_addresses: HostAddresses::default(),
            places: Arc::new(Semaphore::new(places())),
        };
        Ok(Arc::new(Self { shared: Arc::new(shared) }))
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Serves the gate of a session until that is closed or dropped. Must be called inside a tokio runtime.
    pub fn attach(&self, sockets: GateSockets, hooks: SessionHooks) -> Result<Gate> {
        let failed = |error| Error::io("serve the gate of a session", error);
        let tasks = Tasks::new(Handle::current());
        let session = Arc::new(SessionGate::new(Arc::clone(&self.shared), hooks));
        let flows = UdpFlows::new(Arc::clone(&session), tasks.clone());
        // From here on, tasks that were begun end when this is dropped on an error.
        let gate = Gate { session, flows, tasks };
        for listener in sockets.tcp {
            listener.set_nonblocking(true).map_err(failed)?;
            let listener = TcpListener::from_std(listener).map_err(failed)?;
            gate.tasks.spawn(accept(listener, Arc::clone(&gate.session), gate.tasks.clone()));
        }
        for dns in sockets.dns {
            let datagrams = Arc::new(GateDatagrams::new(dns).map_err(failed)?);
            gate.tasks.spawn(answer_datagrams(datagrams, Arc::clone(&gate.session), gate.tasks.clone()));
        }
        gate.set_udp(sockets.udp);
        Ok(gate)
    }
}

/// The gate of one session.
#[derive(Debug)]
pub struct Gate {
    session: Arc<SessionGate>,
    flows: Arc<UdpFlows>,
    tasks: Tasks,
}

impl Gate {
    /// Counts at once for what begins from now on. What is open stays open, within the new limits.
    pub fn set_policy(&self, policy: NetworkPolicy) {
        self.session.set_policy(policy);
    }

    /// Serves these UDP ports instead of those before.
    pub fn set_udp(&self, gates: Vec<UdpGate>) {
        let _runtime = self.tasks.runtime().enter();
        self.flows.set_ports(gates);
    }

    /// Ends every connection.
    pub fn close(&self) {
        self.tasks.cancel();
    }

    /// Returns when a gate that was closed has nothing open any more.
    pub async fn closed(&self) {
        self.tasks.ended().await;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_servers_that_cannot_be_are_refused() {
        for bad in ["192.0.2.1:0", "0.0.0.0:53", "[::]:53"] {
            let settings = GatewaySettings { dns_servers: vec![bad.parse().unwrap()], ..GatewaySettings::default() };
            assert_eq!(resolver(&settings).unwrap_err().field(), Some("dns_servers"), "{bad}");
        }
        resolver(&GatewaySettings::default()).unwrap();
    }
}
