//! The network of a box, seen from the host. What stands for it came from those who made it, never out of the box.

use std::{io, os::fd::OwnedFd, sync::Arc};

use sandbar_netns::{GateSockets, LinkedNetwork, UdpGate};

use crate::{native::spawner::Spawner, protocol::GateOrder};

#[derive(Debug)]
pub(crate) enum BoxNetworkHandle {
    /// A namespace the host may go into.
    Namespace(OwnedFd),
    /// A namespace of the gate's, and a link to the one of the box.
    Linked(LinkedNetwork),
    /// The user namespace of a box that has the caller as its only user, and the network in it, where only the spawner can
    /// go.
    OfCaller { spawner: Arc<Spawner>, namespaces: [OwnedFd; 2] },
}

impl BoxNetworkHandle {
    pub(crate) fn open_gate(&self, udp_ports: &[u16]) -> io::Result<GateSockets> {
        match self {
            Self::Namespace(network) => sandbar_netns::in_namespace(network, || sandbar_netns::open_gate(udp_ports)),
            Self::Linked(network) => {
                sandbar_netns::in_namespace(&network.gate, || sandbar_netns::open_linked_gate(udp_ports))
            }
            Self::OfCaller { spawner, namespaces } => {
                spawner.open_gate(GateOrder { udp_ports: udp_ports.to_vec(), only_udp: false }, namespaces)
            }
        }
    }

    pub(crate) fn reopen_udp(&self, udp_ports: &[u16]) -> io::Result<Vec<UdpGate>> {
        match self {
            Self::Namespace(network) | Self::Linked(LinkedNetwork { gate: network, .. }) => {
                sandbar_netns::in_namespace(network, || sandbar_netns::reopen_udp(udp_ports))
            }
            Self::OfCaller { spawner, namespaces } => {
                let order = GateOrder { udp_ports: udp_ports.to_vec(), only_udp: true };
                Ok(spawner.open_gate(order, namespaces)?.udp)
            }
        }
    }
}
