//! Gates in networks that belong to a user namespace of an ordinary user.
//!
//! To go into such a network one must go into its user namespace first, which only a process with one thread can do, and
//! none comes back from there. So a copy of the spawner goes, opens the gate, and hands its sockets to the host.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use sandbar_netns::{GateSockets, UdpGate};

use super::namespaces;
use crate::protocol::{Connection, GateOrder, GateParts, MOST_DESCRIPTORS, SpawnerAnswer};

/// Opens one in namespaces made for it.
pub(super) fn try_out(host: &Connection, (uid, gid): (u32, u32)) -> io::Result<()> {
    namespaces::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
    namespaces::map_caller(uid, gid)?;
    sandbar_netns::open_gate(&[])?;
    host.send(&SpawnerAnswer::GateWorks.encode(), &[])
}

pub(super) fn open(host: &Connection, order: &GateOrder, [user, network]: &[OwnedFd; 2]) -> io::Result<()> {
    namespaces::enter(user.as_fd(), libc::CLONE_NEWUSER)?;
    namespaces::enter(network.as_fd(), libc::CLONE_NEWNET)?;
    let sockets = if order.only_udp {
        GateSockets { tcp: Vec::new(), dns: Vec::new(), udp: sandbar_netns::reopen_udp(&order.udp_ports)? }
    } else {
        sandbar_netns::open_gate(&order.udp_ports)?
    };
    send(host, &sockets)
}

fn send(host: &Connection, sockets: &GateSockets) -> io::Result<()> {
    let ports = |gates: &[UdpGate]| gates.iter().map(|gate| gate.port).collect();
    let parts = GateParts {
        tcp: u8::try_from(sockets.tcp.len()).unwrap_or_default(),
        dns: ports(&sockets.dns),
        udp: ports(&sockets.udp),
    };
    let datagrams = sockets.dns.iter().chain(&sockets.udp).map(|gate| gate.socket.as_fd());
    let descriptors: Vec<BorrowedFd<'_>> = sockets.tcp.iter().map(AsFd::as_fd).chain(datagrams).collect();
    let mut chunks = descriptors.chunks(MOST_DESCRIPTORS);
    host.send(&SpawnerAnswer::Gate(parts).encode(), chunks.next().unwrap_or_default())?;
    chunks.try_for_each(|chunk| host.send(&[], chunk))
}
