//! Sockets of the netns listeners. They belong to the namespace they were created in, whichever
//! process uses them.

#![expect(
    unsafe_code,
    reason = "rustix lacks the socket options of transparent proxies"
)]

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use crate::addresses::{GATEWAY_V4, GATEWAY_V6, TCP_LISTENER_PORT};

const DNS_PORT: u16 = 53;

/// Limits the connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Transparent sockets that receive the traffic of a session. They are non-blocking. There is none
/// for IPv6 on a machine without it.
#[derive(Debug)]
pub struct NetnsListeners {
    /// Connections to any address. The local address of an accepted connection is its original
    /// destination.
    pub tcp: Vec<TcpListener>,
    /// Datagrams to port 53 of any address, including loopback if the session has no server there.
    pub dns: Vec<UdpListener>,
    /// Datagrams to the other requested ports.
    pub udp: Vec<UdpListener>,
}

/// Socket for datagrams to one port of any address. Each carries its original destination
/// (`IP_ORIGDSTADDR`, `IPV6_ORIGDSTADDR`), which an answer must use as source (`IP_PKTINFO`,
/// `IPV6_PKTINFO`).
#[derive(Debug)]
pub struct UdpListener {
    pub port: u16,
    pub socket: UdpSocket,
}

impl NetnsListeners {
    pub(crate) fn open(has_ipv6: bool, udp_ports: &[u16]) -> io::Result<Self> {
        Ok(Self {
            tcp: gateways(has_ipv6)
                .map(listener)
                .collect::<io::Result<_>>()?,
            dns: datagrams(has_ipv6, DNS_PORT).collect::<io::Result<_>>()?,
            udp: udp_listeners(has_ipv6, udp_ports)?,
        })
    }
}

/// Opens UDP listeners. Skips port 53, which has listeners of its own.
pub(crate) fn udp_listeners(has_ipv6: bool, ports: &[u16]) -> io::Result<Vec<UdpListener>> {
    let others = ports.iter().filter(|&&port| port != DNS_PORT);
    others.flat_map(|&port| datagrams(has_ipv6, port)).collect()
}

fn gateways(has_ipv6: bool) -> impl Iterator<Item = IpAddr> {
    [GATEWAY_V4.into()]
        .into_iter()
        .chain(has_ipv6.then_some(GATEWAY_V6.into()))
}

fn listener(gateway: IpAddr) -> io::Result<TcpListener> {
    let socket = transparent(gateway, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddr::new(gateway, TCP_LISTENER_PORT))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn datagrams(has_ipv6: bool, port: u16) -> impl Iterator<Item = io::Result<UdpListener>> {
    gateways(has_ipv6).map(move |gateway| {
        let socket = transparent(gateway, SocketType::DGRAM)?;
        match gateway {
            IpAddr::V4(_) => set(&socket, libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR)?,
            IpAddr::V6(_) => set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVORIGDSTADDR)?,
        }
        bind(&socket, &SocketAddr::new(gateway, port)).map_err(|errno| {
            let error = io::Error::from(errno);
            io::Error::new(error.kind(), format!("bind UDP port {port}: {error}"))
        })?;
        Ok(UdpListener {
            port,
            socket: socket.into(),
        })
    })
}

/// Creates a socket that receives and sends packets under any address. Sockets of the same user may
/// share a port, so listeners can be opened again before the old ones are closed.
fn transparent(gateway: IpAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = if gateway.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
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

/// Enables a socket option that `rustix` does not have.
fn set(socket: &OwnedFd, level: i32, option: i32) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).unwrap_or_default();
    // SAFETY: the kernel reads a value of the given length.
    match unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            length,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
