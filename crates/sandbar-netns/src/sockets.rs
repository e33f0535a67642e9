//! The sockets of a gate. They stay in the namespace they were made in, wherever they are used.

use std::net::{TcpListener, UdpSocket};

/// What arrives at the gate of a session. Sockets do not block. IPv6 is absent on a machine without it.
#[derive(Debug)]
pub struct GateSockets {
    /// Connections to anywhere. The local address of an accepted connection is where it was meant to go.
    pub tcp: Vec<TcpListener>,
    /// Datagrams to port 53 of anywhere, the loopback included where nobody listens there.
    pub dns: Vec<UdpGate>,
    /// Datagrams to the other ports that were asked for.
    pub udp: Vec<UdpGate>,
}

/// Datagrams to one port of anywhere. Each tells where it was meant to go (`IP_ORIGDSTADDR`, `IPV6_ORIGDSTADDR`), and an
/// answer is to come from there (`IP_PKTINFO`, `IPV6_PKTINFO`).
#[derive(Debug)]
pub struct UdpGate {
    pub port: u16,
    pub socket: UdpSocket,
}
