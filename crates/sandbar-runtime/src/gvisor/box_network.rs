//! Network of a gVisor box, as the host uses it.

use std::io;

use sandbar_netns::{LinkedNetwork, NetnsListeners, UdpListener};

use crate::sandbox::BoxNetworkHandle;

impl BoxNetworkHandle for LinkedNetwork {
    fn open_listeners(&self, udp_ports: &[u16]) -> io::Result<NetnsListeners> {
        sandbar_netns::in_namespace(&self.host_side, || {
            sandbar_netns::open_linked_listeners(udp_ports)
        })
    }

    fn reopen_udp(&self, udp_ports: &[u16]) -> io::Result<Vec<UdpListener>> {
        sandbar_netns::in_namespace(&self.host_side, || sandbar_netns::reopen_udp(udp_ports))
    }
}
