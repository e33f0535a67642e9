//! Netns listeners in a network namespace owned by an unprivileged caller's user namespace.
//!
//! Entering such a network namespace requires entering its user namespace first. Only a
//! single-threaded process can do that, and it cannot return. So a fork of the spawner enters both,
//! opens the listeners and sends them to the host.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use sandbar_netns::{NetnsListeners, UdpListener};

use super::namespaces;
use crate::protocol::{Connection, ListenersOrder, ListenersParts, MAX_DESCRIPTORS, SpawnerAnswer};

/// Opens listeners in new namespaces, to find out whether that works.
pub(super) fn probe(host: &Connection, (uid, gid): (u32, u32)) -> io::Result<()> {
    namespaces::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
    namespaces::map_caller(uid, gid)?;
    sandbar_netns::open_listeners(&[])?;
    host.send(&SpawnerAnswer::ListenersWork.encode(), &[])
}

pub(super) fn open(
    host: &Connection,
    order: &ListenersOrder,
    [user, network]: &[OwnedFd; 2],
) -> io::Result<()> {
    namespaces::enter(user.as_fd(), libc::CLONE_NEWUSER)?;
    namespaces::enter(network.as_fd(), libc::CLONE_NEWNET)?;
    let sockets = if order.only_udp {
        NetnsListeners {
            tcp: Vec::new(),
            dns: Vec::new(),
            udp: sandbar_netns::reopen_udp(&order.udp_ports)?,
        }
    } else {
        sandbar_netns::open_listeners(&order.udp_ports)?
    };
    send(host, &sockets)
}

fn send(host: &Connection, sockets: &NetnsListeners) -> io::Result<()> {
    let ports_of =
        |listeners: &[UdpListener]| listeners.iter().map(|listener| listener.port).collect();
    let parts = ListenersParts {
        tcp: u8::try_from(sockets.tcp.len()).unwrap_or_default(),
        dns: ports_of(&sockets.dns),
        udp: ports_of(&sockets.udp),
    };
    let datagrams = sockets
        .dns
        .iter()
        .chain(&sockets.udp)
        .map(|listener| listener.socket.as_fd());
    let descriptors: Vec<BorrowedFd<'_>> = sockets
        .tcp
        .iter()
        .map(AsFd::as_fd)
        .chain(datagrams)
        .collect();
    let mut chunks = descriptors.chunks(MAX_DESCRIPTORS);
    host.send(
        &SpawnerAnswer::Listeners(parts).encode(),
        chunks.next().unwrap_or_default(),
    )?;
    chunks.try_for_each(|chunk| host.send(&[], chunk))
}
