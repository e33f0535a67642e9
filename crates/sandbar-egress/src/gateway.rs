//! The gateway of a host, and the listeners of its sessions.

use std::sync::Arc;

use sandbar_core::{Error, NetworkPolicy, Result};
use sandbar_netns::{NetnsListeners, UdpListener};
use tokio::{net::TcpListener, runtime::Handle};

use crate::{
    GatewaySettings, SessionHooks,
    listener::{DatagramSocket, Tasks, UdpFlows, accept, answer_datagrams},
    session_egress::SessionEgress,
    shared::Shared,
};

/// Egress gateway of a host. Serves the listeners of every session.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
}

impl Gateway {
    pub fn open(settings: &GatewaySettings) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            shared: Arc::new(Shared::new(settings)?),
        }))
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Serves the sockets of a session until the listener is closed or dropped. Must be called
    /// inside a tokio runtime.
    pub fn attach(&self, sockets: NetnsListeners, hooks: SessionHooks) -> Result<EgressListener> {
        let failed = |error| Error::io("serve the network listeners of a session", error);
        let tasks = Tasks::new(Handle::current());
        let session = Arc::new(SessionEgress::new(Arc::clone(&self.shared), hooks));
        let flows = UdpFlows::new(Arc::clone(&session), tasks.clone());
        // Built first: on an error below, dropping it ends the tasks that were started.
        let egress = EgressListener {
            session,
            flows,
            tasks,
        };
        for listener in sockets.tcp {
            listener.set_nonblocking(true).map_err(failed)?;
            let listener = TcpListener::from_std(listener).map_err(failed)?;
            egress.tasks.spawn(accept(
                listener,
                Arc::clone(&egress.session),
                egress.tasks.clone(),
            ));
        }
        for dns in sockets.dns {
            let listener = Arc::new(DatagramSocket::new(dns).map_err(failed)?);
            egress.tasks.spawn(answer_datagrams(
                listener,
                Arc::clone(&egress.session),
                egress.tasks.clone(),
            ));
        }
        egress.set_udp(sockets.udp);
        Ok(egress)
    }
}

/// Listeners of one session. Closes them and every connection when dropped.
#[derive(Debug)]
pub struct EgressListener {
    session: Arc<SessionEgress>,
    flows: Arc<UdpFlows>,
    tasks: Tasks,
}

impl EgressListener {
    /// Replaces the policy. New connections are judged by it; open ones stay open, within its
    /// limits.
    pub fn set_policy(&self, policy: NetworkPolicy) {
        self.session.set_policy(policy);
    }

    /// Replaces the UDP ports that are served.
    pub fn set_udp(&self, sockets: Vec<UdpListener>) {
        let _runtime = self.tasks.runtime().enter();
        self.flows.set_ports(sockets);
    }

    /// Ends every connection.
    pub fn close(&self) {
        self.tasks.cancel();
    }

    /// Waits until every connection of a closed listener has ended.
    pub async fn closed(&self) {
        self.tasks.ended().await;
    }
}

impl Drop for EgressListener {
    fn drop(&mut self) {
        self.close();
    }
}
