//! Network namespace of a box, as the host uses it.

use std::{fmt, io};

use sandbar_netns::{NetnsListeners, UdpListener};

/// Access to the network namespace of a box, implemented by each back end.
pub(crate) trait BoxNetworkHandle: fmt::Debug + Send + Sync {
    /// Opens listeners that receive all traffic of the box, except to its own loopback.
    fn open_listeners(&self, udp_ports: &[u16]) -> io::Result<NetnsListeners>;

    /// Opens listeners for other UDP ports while the rest stays open.
    fn reopen_udp(&self, udp_ports: &[u16]) -> io::Result<Vec<UdpListener>>;
}
