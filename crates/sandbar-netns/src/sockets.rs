//! The sockets of a gate. They stay in the namespace they were made in, wherever they are used.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use crate::addresses::{GATE_PORT, GATEWAY_V4, GATEWAY_V6};

const DNS_PORT: u16 = 53;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

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

impl GateSockets {
    pub(crate) fn open(has_ipv6: bool, udp_ports: &[u16]) -> io::Result<Self> {
        Ok(Self {
            tcp: gateways(has_ipv6).map(listener).collect::<io::Result<_>>()?,
            dns: datagrams(has_ipv6, DNS_PORT).collect::<io::Result<_>>()?,
            udp: udp_gates(has_ipv6, udp_ports)?,
        })
    }
}

/// Port 53 has sockets of its own, so it is left out here.
pub(crate) fn udp_gates(has_ipv6: bool, ports: &[u16]) -> io::Result<Vec<UdpGate>> {
    let others = ports.iter().filter(|&&port| port != DNS_PORT);
    others.flat_map(|&port| datagrams(has_ipv6, port)).collect()
}

fn gateways(has_ipv6: bool) -> impl Iterator<Item = IpAddr> {
    [GATEWAY_V4.into()].into_iter().chain(has_ipv6.then_some(GATEWAY_V6.into()))
}

fn listener(gateway: IpAddr) -> io::Result<TcpListener> {
    let socket = transparent(gateway, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddr::new(gateway, GATE_PORT))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn datagrams(has_ipv6: bool, port: u16) -> impl Iterator<Item = io::Result<UdpGate>> {
    gateways(has_ipv6).map(move |gateway| {
        let socket = transparent(gateway, SocketType::DGRAM)?;
        match gateway {
            IpAddr::V4(_) => set(&socket, libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR)?,
            IpAddr::V6(_) => set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVORIGDSTADDR)?,
        }
        bind(&socket, &SocketAddr::new(gateway, port)).map_err(|errno| {
            let error = io::Error::from(errno);
            io::Error::new(error.kind(), format!("take UDP port {port}: {error}"))
        })?;
        Ok(UdpGate { port, socket: socket.into() })
    })
}

/// A socket that takes and sends packets under any address. Those of one user may share a port, so that a gate can be
/// opened again before it is closed.
fn transparent(gateway: IpAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = if gateway.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, flags, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    match gateway {
        IpAddr::V4(_) => set(&socket, libc::IPPROTO_IP, libc::IP_TRANSPARENT)?,
        IpAddr::V6(_) => {
            sockopt::set_ipv6_v6only(&socket, true)?;
            set(&socket, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT)?;
        }
    }
    Ok(socket)
}

/// Turns an option on that `rustix` has no name for.
fn set(socket: &OwnedFd, level: i32, option: i32) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).unwrap_or_default();
    // SAFETY: the value is as long as it says, and only read.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
