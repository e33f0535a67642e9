//! Packet capture between the host and the test internet.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
    sync::Mutex,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with, sockopt},
};
use sandbar_core::MutexExt as _;

/// Destination of a packet. The port is 0 for protocols without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    /// As in the header: 1 is ICMP, 6 TCP, 17 UDP.
    pub protocol: u8,
    pub to: SocketAddr,
}

/// A tap at the internet's end.
#[derive(Debug)]
pub(super) struct Wire {
    socket: OwnedFd,
    seen: Mutex<BTreeSet<Packet>>,
}

/// Everything, and only its first bytes.
const EVERY_PROTOCOL: u16 = 3;
const ICMP_V6: u8 = 58;
const ROOM: usize = 64 << 20;

impl Wire {
    /// In the namespace of the internet.
    pub(super) fn tap() -> Self {
        let protocol =
            rustix::net::Protocol::from_raw(u32::from(EVERY_PROTOCOL.to_be()).try_into().unwrap());
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(
            AddressFamily::PACKET,
            SocketType::DGRAM,
            flags,
            Some(protocol),
        )
        .unwrap();
        sockopt::set_socket_recv_buffer_size_force(&socket, ROOM).unwrap();
        Self {
            socket,
            seen: Mutex::default(),
        }
    }

    /// Lists the destinations so far. A packet is in the socket before its send call returns.
    pub(super) fn packets(&self) -> Vec<Packet> {
        let mut seen = self.seen.lock_unpoisoned();
        let mut buffer = [0; 128];
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC) {
                Ok((length, _)) => seen.extend(packet(&buffer[..length.min(buffer.len())])),
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("the tap is gone: {error}"),
            }
        }
        seen.iter().copied().collect()
    }
}

/// Parses a packet; `None` for neighbour discovery, and for packets from the internet.
fn packet(bytes: &[u8]) -> Option<Packet> {
    let (protocol, from, to, rest): (u8, IpAddr, IpAddr, &[u8]) = match bytes.first()? >> 4 {
        4 => {
            let of = |at: usize| {
                Some(Ipv4Addr::from(
                    <[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok()?,
                ))
            };
            let head = usize::from(bytes[0] & 15) * 4;
            (
                *bytes.get(9)?,
                of(12)?.into(),
                of(16)?.into(),
                bytes.get(head..)?,
            )
        }
        6 => {
            let of = |at: usize| {
                Some(Ipv6Addr::from(
                    <[u8; 16]>::try_from(bytes.get(at..at + 16)?).ok()?,
                ))
            };
            (
                *bytes.get(6)?,
                of(8)?.into(),
                of(24)?.into(),
                bytes.get(40..)?,
            )
        }
        _ => return None,
    };
    let is_of_the_host = |address: IpAddr| {
        [
            "10.65.0.2",
            "203.0.113.200",
            "fd00:65::2",
            "2001:db8:200::200",
        ]
        .contains(&address.to_string().as_str())
    };
    let is_told_to_neighbours = matches!(to, IpAddr::V6(to) if to.is_multicast());
    if is_of_the_host(to) || is_told_to_neighbours || (protocol == ICMP_V6 && !is_of_the_host(from))
    {
        return None;
    }
    // Neighbour discovery: all ICMPv6 messages except echo.
    if protocol == ICMP_V6 && rest.first() != Some(&128) {
        return None;
    }
    let has_port = matches!(protocol, 6 | 17);
    let port = if has_port {
        u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?])
    } else {
        0
    };
    Some(Packet {
        protocol,
        to: SocketAddr::new(to, port),
    })
}
