//! Opening the netns listeners.

use std::io;

use crate::{
    filter::{self, Ingress},
    link::raise_loopback,
    listener_sockets::{self, NetnsListeners, UdpListener},
    routes::{self, has_ipv6},
};

/// Opens listeners in the calling thread's namespace, which must have only a loopback interface.
/// They receive all traffic to other addresses. They may be opened again; both sets then share the
/// traffic until one is dropped.
pub fn open_listeners(udp_ports: &[u16]) -> io::Result<NetnsListeners> {
    raise_loopback().map_err(at("bring up the loopback interface"))?;
    let has_ipv6 = has_ipv6();
    routes::make_all_local(has_ipv6).map_err(at("make every address local"))?;
    filter::install(has_ipv6, Ingress::Loopback).map_err(at("install the nftables rules"))?;
    NetnsListeners::open(has_ipv6, udp_ports)
}

/// Opens the listeners of a [`LinkedNetwork`](crate::LinkedNetwork). To be called in its
/// `host_side`.
pub fn open_linked_listeners(udp_ports: &[u16]) -> io::Result<NetnsListeners> {
    let has_ipv6 = has_ipv6();
    filter::install(has_ipv6, Ingress::Link).map_err(at("install the nftables rules"))?;
    NetnsListeners::open(has_ipv6, udp_ports)
}

/// Opens listeners for other UDP ports, in a namespace whose listeners are open.
pub fn reopen_udp(udp_ports: &[u16]) -> io::Result<Vec<UdpListener>> {
    listener_sockets::udp_listeners(has_ipv6(), udp_ports)
}

fn at(step: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{step}: {error}"))
}
