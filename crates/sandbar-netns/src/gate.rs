//! Opening a gate.

use std::io;

use crate::{
    filter,
    link::raise_loopback,
    routes,
    sockets::{self, GateSockets, UdpGate},
};

/// Opens the gate of the calling thread's namespace, which has nothing but a loopback: from here on whatever goes
/// anywhere else arrives at these sockets. It may be opened again; then both gates share what arrives, until one is
/// dropped.
pub fn open_gate(udp_ports: &[u16]) -> io::Result<GateSockets> {
    let has_ipv6 = prepare()?;
    GateSockets::open(has_ipv6, udp_ports)
}

/// Sockets for other UDP ports of a gate that is open.
pub fn reopen_udp(udp_ports: &[u16]) -> io::Result<Vec<UdpGate>> {
    let has_ipv6 = prepare()?;
    sockets::udp_gates(has_ipv6, udp_ports)
}

/// Returns whether there is IPv6.
fn prepare() -> io::Result<bool> {
    let step = |name: &str| {
        let name = name.to_owned();
        move |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"))
    };
    raise_loopback().map_err(step("raise the loopback"))?;
    let has_ipv6 = routes::make_everything_local().map_err(step("make every address local"))?;
    filter::install(has_ipv6).map_err(step("install the rules of the gate"))?;
    Ok(has_ipv6)
}
