//! Datagrams at the gate, with the address each was meant for, and answers that come from there.

use std::{
    io,
    mem::{self, MaybeUninit},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd, RawFd},
    ptr,
    time::Duration,
};

use sandbar_netns::UdpGate;
use tokio::{io::Interest, net::UdpSocket};

/// No datagram is longer.
pub(super) const MOST_DATAGRAM: usize = 64 * 1024;

/// The wait after a datagram could not be received, as when memory has run out.
const BREATH: Duration = Duration::from_millis(100);

/// Room for the control messages of one datagram, aligned as the kernel writes them.
type Control = [u64; 16];

/// One port of the gate.
#[derive(Debug)]
pub(crate) struct GateDatagrams {
    socket: UdpSocket,
    port: u16,
    is_ipv4: bool,
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) length: usize,
    pub(crate) from: SocketAddr,
    /// Where the session sent it.
    pub(crate) meant_for: SocketAddr,
}

impl GateDatagrams {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(gate: UdpGate) -> io::Result<Self> {
        gate.socket.set_nonblocking(true)?;
        let is_ipv4 = gate.socket.local_addr()?.is_ipv4();
        Ok(Self { socket: UdpSocket::from_std(gate.socket)?, port: gate.port, is_ipv4 })
    }

    /// Which datagrams arrive here: those to this port, of one family.
    pub(crate) const fn kind(&self) -> (u16, bool) {
        (self.port, self.is_ipv4)
    }

    /// The next datagram. One that is longer than the buffer is cut.
    pub(crate) async fn recv(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        self.socket.async_io(Interest::READABLE, || receive(self.socket.as_raw_fd(), buffer)).await
    }

    /// The next datagram, whatever becomes of others.
    pub(crate) async fn next(&self, buffer: &mut [u8]) -> Datagram {
        loop {
            match self.recv(buffer).await {
                Ok(datagram) => return datagram,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::debug!(%error, "a datagram at a gate was dropped");
                }
                Err(error) => {
                    tracing::warn!(%error, "could not receive a datagram at a gate");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }

    /// Sends a datagram to the session that comes `as_from` an address of the outside. Its port is that of the gate.
    pub(crate) async fn send(&self, bytes: &[u8], to: SocketAddr, as_from: SocketAddr) -> io::Result<()> {
        self.socket.async_io(Interest::WRITABLE, || send(self.socket.as_raw_fd(), bytes, to, as_from.ip())).await
    }
}

fn receive(socket: RawFd, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut from = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control: Control = [0; 16];
    // SAFETY: a message of zeroes is one with nothing in it.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = from.as_mut_ptr().cast();
    message.msg_namelen = size::<libc::sockaddr_storage>();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of::<Control>();
    // SAFETY: the message points to a buffer, an address and control room that live until the call returns.
    let length = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_DONTWAIT) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let unknown = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    // SAFETY: the storage is as large as any address; what the kernel did not write is zero.
    let from = unsafe { address(from.as_ptr().cast()) }.ok_or_else(|| unknown("a datagram came from nowhere"))?;
    // SAFETY: the kernel has filled the control room of this message.
    let meant_for = unsafe { original_destination(&message) }
        .ok_or_else(|| unknown("a datagram does not tell where it was meant to go"))?;
    Ok(Datagram { length, from, meant_for })
}

/// # Safety
/// The control messages of `message` were written by the kernel and are still there.
unsafe fn original_destination(message: &libc::msghdr) -> Option<SocketAddr> {
    // SAFETY: the caller says that the control messages are there.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: the pointer came from CMSG_FIRSTHDR or CMSG_NXTHDR and is not null.
        let header = unsafe { next.read_unaligned() };
        let is_destination = matches!(
            (header.cmsg_level, header.cmsg_type),
            (libc::SOL_IP, libc::IP_ORIGDSTADDR) | (libc::SOL_IPV6, libc::IPV6_ORIGDSTADDR)
        );
        if is_destination {
            // SAFETY: the data of these messages is a socket address as long as its family says.
            return unsafe { address(libc::CMSG_DATA(next)) };
        }
        // SAFETY: both pointers belong to the same message.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    None
}

/// # Safety
/// `pointer` points to a socket address as long as its family says; it may lie anywhere.
unsafe fn address(pointer: *const u8) -> Option<SocketAddr> {
    // SAFETY: every socket address begins with its family.
    match i32::from(unsafe { pointer.cast::<libc::sa_family_t>().read_unaligned() }) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a `sockaddr_in`.
            let address = unsafe { pointer.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
            Some((ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a `sockaddr_in6`.
            let address = unsafe { pointer.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            Some((ip, u16::from_be(address.sin6_port)).into())
        }
        _ => None,
    }
}

fn send(socket: RawFd, bytes: &[u8], to: SocketAddr, as_from: IpAddr) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control: Control = [0; 16];
    // SAFETY: a message of zeroes is one with nothing in it.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: addresses of zeroes are valid; the fields that matter are set below.
    let (mut v4, mut v6): (libc::sockaddr_in, libc::sockaddr_in6) = unsafe { (mem::zeroed(), mem::zeroed()) };
    match to {
        SocketAddr::V4(to) => {
            v4.sin_family = family(libc::AF_INET);
            v4.sin_port = to.port().to_be();
            v4.sin_addr.s_addr = to.ip().to_bits().to_be();
            message.msg_name = (&raw mut v4).cast();
            message.msg_namelen = size::<libc::sockaddr_in>();
        }
        SocketAddr::V6(to) => {
            v6.sin6_family = family(libc::AF_INET6);
            v6.sin6_port = to.port().to_be();
            v6.sin6_addr.s6_addr = to.ip().octets();
            message.msg_name = (&raw mut v6).cast();
            message.msg_namelen = size::<libc::sockaddr_in6>();
        }
    }
    match as_from {
        IpAddr::V4(ip) => {
            let source = libc::in_addr { s_addr: ip.to_bits().to_be() };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: libc::in_addr { s_addr: 0 } };
            // SAFETY: the message has control room that is larger than one message with this data.
            unsafe { put_control(&mut message, libc::SOL_IP, libc::IP_PKTINFO, info) };
        }
        IpAddr::V6(ip) => {
            let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: ip.octets() }, ipi6_ifindex: 0 };
            // SAFETY: as above.
            unsafe { put_control(&mut message, libc::SOL_IPV6, libc::IPV6_PKTINFO, info) };
        }
    }
    // SAFETY: the message points to bytes, an address and a control message that live until the call returns; the kernel
    // only reads them.
    let sent = unsafe { libc::sendmsg(socket, &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// # Safety
/// `msg_control` points to room that is aligned for a control message and long enough for one with `data`.
unsafe fn put_control<T>(message: &mut libc::msghdr, level: i32, kind: i32, data: T) {
    let length = size::<T>();
    // SAFETY: this only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(length) } as usize;
    // SAFETY: the room is long enough for a header and the data, so that there is a first header.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(length) as usize;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<T>(), data);
    }
}

/// Socket addresses and packet information are a few bytes long.
#[expect(clippy::cast_possible_truncation, reason = "the types this is used for are a few bytes long")]
const fn size<T>() -> u32 {
    mem::size_of::<T>() as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "families are small numbers")]
const fn family(family: i32) -> libc::sa_family_t {
    family as libc::sa_family_t
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell_destinations(socket: &std::net::UdpSocket, level: i32, option: i32) {
        let on: i32 = 1;
        // SAFETY: the option is an integer, and this is one.
        let result =
            unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size::<i32>()) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    /// Every address of the loopback is ours without being asked for, as every address is in a session's namespace.
    async fn round_trip(gate: std::net::UdpSocket, client: UdpSocket, meant_for: IpAddr) {
        let port = gate.local_addr().unwrap().port();
        let gate = GateDatagrams::new(UdpGate { port, socket: gate }).unwrap();
        let meant_for = SocketAddr::new(meant_for, port);
        client.connect(meant_for).await.unwrap();
        client.send(b"question").await.unwrap();
        let mut buffer = [0; 64];
        let datagram = gate.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..datagram.length], b"question");
        assert_eq!((datagram.from, datagram.meant_for), (client.local_addr().unwrap(), meant_for));
        gate.send(b"answer", datagram.from, datagram.meant_for).await.unwrap();
        // The client is connected: it hears only what comes from where it sent to.
        let length = client.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"answer");
    }

    #[tokio::test]
    async fn a_datagram_tells_where_it_was_meant_to_go_and_the_answer_comes_from_there() {
        let gate = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        tell_destinations(&gate, libc::SOL_IP, libc::IP_ORIGDSTADDR);
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        round_trip(gate, client, "127.7.7.7".parse().unwrap()).await;
    }

    #[tokio::test]
    async fn the_same_holds_for_ipv6() {
        let gate = std::net::UdpSocket::bind("[::1]:0").unwrap();
        tell_destinations(&gate, libc::SOL_IPV6, libc::IPV6_ORIGDSTADDR);
        let client = UdpSocket::bind("[::1]:0").await.unwrap();
        round_trip(gate, client, "::1".parse().unwrap()).await;
    }

    #[tokio::test]
    async fn a_datagram_that_does_not_tell_is_an_error() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let gate = GateDatagrams::new(UdpGate { port: address.port(), socket }).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.send_to(b"x", address).await.unwrap();
        assert_eq!(gate.recv(&mut [0; 8]).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
