//! Network namespaces of native boxes. The handles come from the spawner, never from the box.

use std::{io, os::fd::OwnedFd, sync::Arc};

use sandbar_netns::{NetnsListeners, UdpListener};

use super::spawner::Spawner;
use crate::{protocol::ListenersOrder, sandbox::BoxNetworkHandle};

/// Network namespace that the host can enter.
#[derive(Debug)]
pub(super) struct NamespaceNetwork(pub(super) OwnedFd);

impl BoxNetworkHandle for NamespaceNetwork {
    fn open_listeners(&self, udp_ports: &[u16]) -> io::Result<NetnsListeners> {
        sandbar_netns::in_namespace(&self.0, || sandbar_netns::open_listeners(udp_ports))
    }

    fn reopen_udp(&self, udp_ports: &[u16]) -> io::Result<Vec<UdpListener>> {
        sandbar_netns::in_namespace(&self.0, || sandbar_netns::reopen_udp(udp_ports))
    }
}

/// Network namespace of an unprivileged host's box, which only a fork of the spawner can enter.
#[derive(Debug)]
pub(super) struct CallerNetwork {
    pub(super) spawner: Arc<Spawner>,
    /// User namespace and network namespace.
    pub(super) namespaces: [OwnedFd; 2],
}

impl BoxNetworkHandle for CallerNetwork {
    fn open_listeners(&self, udp_ports: &[u16]) -> io::Result<NetnsListeners> {
        let order = ListenersOrder {
            udp_ports: udp_ports.to_vec(),
            only_udp: false,
        };
        self.spawner.open_listeners(order, &self.namespaces)
    }

    fn reopen_udp(&self, udp_ports: &[u16]) -> io::Result<Vec<UdpListener>> {
        let order = ListenersOrder {
            udp_ports: udp_ports.to_vec(),
            only_udp: true,
        };
        Ok(self.spawner.open_listeners(order, &self.namespaces)?.udp)
    }
}
