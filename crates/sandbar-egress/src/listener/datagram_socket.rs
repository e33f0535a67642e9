//! UDP socket of a session's network namespace. It receives datagrams with their original
//! destination, and sends answers with that destination as their source address.

#![expect(
    unsafe_code,
    reason = "rustix does not decode `IP_ORIGDSTADDR` control messages"
)]

use std::{
    io,
    mem::{self, MaybeUninit},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd, RawFd},
    ptr,
    time::Duration,
};

use sandbar_netns::UdpListener;
use tokio::{io::Interest, net::UdpSocket};

/// Buffer size for any UDP datagram.
pub(super) const MAX_DATAGRAM_BYTES: usize = 64 * 1024;

/// Delay after a failed `recvmsg`, for example when the kernel is out of memory.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Buffer for the control messages of one datagram, aligned as the kernel writes them.
type Control = [u64; 16];

/// Socket of one UDP port and address family.
#[derive(Debug)]
pub(crate) struct DatagramSocket {
    socket: UdpSocket,
    port: u16,
    is_ipv4: bool,
}

/// Length and addresses of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) length: usize,
    pub(crate) from: SocketAddr,
    /// Original destination.
    pub(crate) destination: SocketAddr,
}

impl DatagramSocket {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(listener: UdpListener) -> io::Result<Self> {
        listener.socket.set_nonblocking(true)?;
        let is_ipv4 = listener.socket.local_addr()?.is_ipv4();
        Ok(Self {
            socket: UdpSocket::from_std(listener.socket)?,
            port: listener.port,
            is_ipv4,
        })
    }

    /// Returns the port, and whether the family is IPv4.
    pub(crate) const fn kind(&self) -> (u16, bool) {
        (self.port, self.is_ipv4)
    }

    /// Receives a datagram. One that is longer than the buffer is truncated.
    pub(crate) async fn recv(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        self.socket
            .async_io(Interest::READABLE, || {
                receive(self.socket.as_raw_fd(), buffer)
            })
            .await
    }

    /// Receives the next datagram; errors are logged and skipped.
    pub(crate) async fn next(&self, buffer: &mut [u8]) -> Datagram {
        loop {
            match self.recv(buffer).await {
                Ok(datagram) => return datagram,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::debug!(%error, "dropped a datagram of a session");
                }
                Err(error) => {
                    tracing::warn!(%error, "could not receive a datagram of a session");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Sends a datagram to the session with `source` as its source address. The source port is that
    /// of this socket.
    pub(crate) async fn send(
        &self,
        bytes: &[u8],
        to: SocketAddr,
        source: SocketAddr,
    ) -> io::Result<()> {
        self.socket
            .async_io(Interest::WRITABLE, || {
                send(self.socket.as_raw_fd(), bytes, to, source.ip())
            })
            .await
    }
}

fn receive(socket: RawFd, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut from = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control: Control = [0; 16];
    // SAFETY: all-zero bytes are a valid, empty `msghdr`.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = from.as_mut_ptr().cast();
    message.msg_namelen = size::<libc::sockaddr_storage>();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of::<Control>();
    // SAFETY: the message points to a buffer, an address and a control buffer that outlive the
    // call.
    let length = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_DONTWAIT) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let unknown = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    // SAFETY: the storage is large enough for any address; bytes the kernel did not write are zero.
    let from = unsafe { address(from.as_ptr().cast()) }
        .ok_or_else(|| unknown("datagram has no source address"))?;
    // SAFETY: the kernel has filled the control buffer of this message.
    let destination = unsafe { original_destination(&message) }
        .ok_or_else(|| unknown("datagram has no original destination"))?;
    Ok(Datagram {
        length,
        from,
        destination,
    })
}

/// # Safety
/// The control messages of `message` were written by the kernel and are still allocated.
unsafe fn original_destination(message: &libc::msghdr) -> Option<SocketAddr> {
    // SAFETY: the caller guarantees that the control messages are valid.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: the pointer came from CMSG_FIRSTHDR or CMSG_NXTHDR and is not null.
        let header = unsafe { next.read_unaligned() };
        let is_destination = matches!(
            (header.cmsg_level, header.cmsg_type),
            (libc::SOL_IP, libc::IP_ORIGDSTADDR) | (libc::SOL_IPV6, libc::IPV6_ORIGDSTADDR)
        );
        if is_destination {
            // SAFETY: the data of these messages is a socket address of the size of its family.
            return unsafe { address(libc::CMSG_DATA(next)) };
        }
        // SAFETY: both pointers belong to the same message.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    None
}

/// # Safety
/// `pointer` points to a socket address of the size of its family; it need not be aligned.
unsafe fn address(pointer: *const u8) -> Option<SocketAddr> {
    // SAFETY: every socket address starts with its family.
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

fn send(socket: RawFd, bytes: &[u8], to: SocketAddr, source: IpAddr) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control: Control = [0; 16];
    // SAFETY: all-zero bytes are a valid, empty `msghdr`.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: all-zero bytes are valid addresses; the relevant fields are set below.
    let (mut v4, mut v6): (libc::sockaddr_in, libc::sockaddr_in6) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
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
    match source {
        IpAddr::V4(ip) => {
            let source = libc::in_addr {
                s_addr: ip.to_bits().to_be(),
            };
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: source,
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            // SAFETY: the control buffer is larger than one control message with this data.
            unsafe { put_control(&mut message, libc::SOL_IP, libc::IP_PKTINFO, info) };
        }
        IpAddr::V6(ip) => {
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: ip.octets(),
                },
                ipi6_ifindex: 0,
            };
            // SAFETY: as above.
            unsafe { put_control(&mut message, libc::SOL_IPV6, libc::IPV6_PKTINFO, info) };
        }
    }
    // SAFETY: the message points to bytes, an address and a control message that outlive the call;
    // the kernel only reads them.
    let sent = unsafe {
        libc::sendmsg(
            socket,
            &raw const message,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// # Safety
/// `msg_control` points to a buffer that is aligned for a control message and large enough for one
/// with `data`.
unsafe fn put_control<T>(message: &mut libc::msghdr, level: i32, kind: i32, data: T) {
    let length = size::<T>();
    // SAFETY: `CMSG_SPACE` only computes a size.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(length) } as usize;
    // SAFETY: the buffer holds a header and the data, so that there is a first header.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(length) as usize;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<T>(), data);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the types this is used for are a few bytes long"
)]
const fn size<T>() -> u32 {
    mem::size_of::<T>() as u32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "families are small numbers"
)]
const fn family(family: i32) -> libc::sa_family_t {
    family as libc::sa_family_t
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enable_destinations(socket: &std::net::UdpSocket, level: i32, option: i32) {
        let on: i32 = 1;
        // SAFETY: the option is an integer, and this is one.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                option,
                (&raw const on).cast(),
                size::<i32>(),
            )
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    /// Uses that every loopback address is local, as every address is in a session's namespace.
    async fn round_trip(listener: std::net::UdpSocket, client: UdpSocket, destination: IpAddr) {
        let port = listener.local_addr().unwrap().port();
        let socket = DatagramSocket::new(UdpListener {
            port,
            socket: listener,
        })
        .unwrap();
        let destination = SocketAddr::new(destination, port);
        client.connect(destination).await.unwrap();
        client.send(b"question").await.unwrap();
        let mut buffer = [0; 64];
        let datagram = socket.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..datagram.length], b"question");
        assert_eq!(
            (datagram.from, datagram.destination),
            (client.local_addr().unwrap(), destination)
        );
        socket
            .send(b"answer", datagram.from, datagram.destination)
            .await
            .unwrap();
        // The client is connected: it receives only datagrams from its destination.
        let length = client.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"answer");
    }

    #[tokio::test]
    async fn ipv4_answer_comes_from_the_original_destination() {
        let listener = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        enable_destinations(&listener, libc::SOL_IP, libc::IP_ORIGDSTADDR);
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        round_trip(listener, client, "127.7.7.7".parse().unwrap()).await;
    }

    #[tokio::test]
    async fn ipv6_answer_comes_from_the_original_destination() {
        let listener = std::net::UdpSocket::bind("[::1]:0").unwrap();
        enable_destinations(&listener, libc::SOL_IPV6, libc::IPV6_ORIGDSTADDR);
        let client = UdpSocket::bind("[::1]:0").await.unwrap();
        round_trip(listener, client, "::1".parse().unwrap()).await;
    }

    #[tokio::test]
    async fn datagram_without_original_destination_is_an_error() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let datagrams = DatagramSocket::new(UdpListener {
            port: address.port(),
            socket,
        })
        .unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.send_to(b"x", address).await.unwrap();
        assert_eq!(
            datagrams.recv(&mut [0; 8]).await.unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
