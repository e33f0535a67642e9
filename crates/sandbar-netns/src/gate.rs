//! Opening a gate.

use std::io;

use crate::{
    filter::{self, Comes},
    link::raise_loopback,
    routes::{self, has_ipv6},
    sockets::{self, GateSockets, UdpGate},
};

/// Opens the gate of the calling thread's namespace, which has nothing but a loopback: from here on whatever goes
/// anywhere else arrives at these sockets. It may be opened again; then both gates share what arrives, until one is
/// dropped.
pub fn open_gate(udp_ports: &[u16]) -> io::Result<GateSockets> {
    raise_loopback().map_err(at("raise the loopback"))?;
    let has_ipv6 = has_ipv6();
    routes::make_everything_local(has_ipv6).map_err(at("make every address local"))?;
    filter::install(has_ipv6, Comes::Around).map_err(at("install the rules of the gate"))?;
    GateSockets::open(has_ipv6, udp_ports)
}

/// Opens the gate of a [`LinkedNetwork`](crate::LinkedNetwork), in the namespace the gate is in.
pub fn open_linked_gate(udp_ports: &[u16]) -> io::Result<GateSockets> {
    let has_ipv6 = has_ipv6();
    filter::install(has_ipv6, Comes::OverALink).map_err(at("install the rules of the gate"))?;
    GateSockets::open(has_ipv6, udp_ports)
}

/// Sockets for other UDP ports of a gate that is open, of either kind.
pub fn reopen_udp(udp_ports: &[u16]) -> io::Result<Vec<UdpGate>> {
    sockets::udp_gates(has_ipv6(), udp_ports)
}

fn at(step: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{step}: {error}"))
}
