//! Non-blocking connect to a port on loopback.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
    vec,
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType, connect, getpeername, getsockname, ipproto,
        socket_with,
        sockopt::{set_tcp_nodelay, socket_error},
    },
};

/// Connection attempt that tries IPv4 loopback and then IPv6, since a server may listen on only one
/// of them.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Socket whose connect is in progress.
    socket: Option<OwnedFd>,
    remaining: vec::IntoIter<SocketAddr>,
    /// Error of the first address.
    first_error: Option<Errno>,
}

/// State of an attempt after a step.
#[derive(Debug)]
pub(super) enum Progress {
    Connected(OwnedFd),
    Waiting(Attempt),
}

impl Attempt {
    pub(super) fn new(port: u16) -> Self {
        let addresses: [SocketAddr; 2] = [
            (Ipv4Addr::LOCALHOST, port).into(),
            (Ipv6Addr::LOCALHOST, port).into(),
        ];
        Self {
            socket: None,
            remaining: Vec::from(addresses).into_iter(),
            first_error: None,
        }
    }

    /// Returns what to poll for before the next [`proceed`](Self::proceed).
    pub(super) fn interest(&self) -> Option<PollFd<'_>> {
        self.socket
            .as_ref()
            .map(|socket| PollFd::new(socket, PollFlags::OUT))
    }

    /// Continues without blocking. The error is that of the first address.
    pub(super) fn proceed(mut self) -> io::Result<Progress> {
        loop {
            let outcome = match self.socket.take() {
                Some(socket) => check(&socket).map(|connected| (socket, connected)),
                None => match self.remaining.next() {
                    Some(address) => begin(&address),
                    None => return Err(self.first_error.unwrap_or(Errno::CONNREFUSED).into()),
                },
            };
            match outcome {
                Ok((socket, true)) => {
                    // The client behind the relay has batched its writes already.
                    let _ = set_tcp_nodelay(&socket, true);
                    return Ok(Progress::Connected(socket));
                }
                Ok((socket, false)) => {
                    self.socket = Some(socket);
                    return Ok(Progress::Waiting(self));
                }
                Err(errno) => drop(self.first_error.get_or_insert(errno)),
            }
        }
    }
}

/// Starts to connect. Returns the socket, and whether it is already connected.
fn begin(address: &SocketAddr) -> rustix::io::Result<(OwnedFd, bool)> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    match connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(errno) => return Err(errno),
    }
    let connected = check(&socket)?;
    Ok((socket, connected))
}

/// Returns whether the socket is connected, or the error of a failed connect.
fn check(socket: &OwnedFd) -> rustix::io::Result<bool> {
    match getpeername(socket) {
        // Without a listener, the kernel may choose the same port as the local port, and connect
        // the socket to itself.
        Ok(peer) if peer == Some(getsockname(socket)?) => Err(Errno::CONNREFUSED),
        Ok(_) => Ok(true),
        Err(Errno::NOTCONN) => socket_error(socket)?.map(|()| false),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::event::poll;

    use super::*;

    fn finish(mut attempt: Attempt) -> io::Result<OwnedFd> {
        loop {
            match attempt.proceed()? {
                Progress::Connected(socket) => return Ok(socket),
                Progress::Waiting(waiting) => attempt = waiting,
            }
            poll(
                &mut attempt.interest().into_iter().collect::<Vec<_>>(),
                None,
            )
            .unwrap();
        }
    }

    #[test]
    fn attempt_connects_to_either_loopback_address() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let socket = finish(Attempt::new(listener.local_addr().unwrap().port())).unwrap();
            assert_eq!(
                TcpStream::from(socket).peer_addr().unwrap(),
                listener.local_addr().unwrap()
            );
        }
    }

    #[test]
    fn self_connect_counts_as_refused() {
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        connect(&socket, &getsockname(&socket).unwrap()).unwrap();
        assert_eq!(check(&socket), Err(Errno::CONNREFUSED));
    }
}
