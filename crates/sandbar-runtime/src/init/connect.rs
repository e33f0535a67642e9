//! Connecting to a port on the loopback without ever waiting.

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
        AddressFamily, SocketFlags, SocketType, connect, getpeername, getsockname, ipproto, socket_with,
        sockopt::{set_tcp_nodelay, socket_error},
    },
};

/// One try after the other: a server may listen on one loopback address and not on the other.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Being connected.
    socket: Option<OwnedFd>,
    left: vec::IntoIter<SocketAddr>,
    /// Why the first address did not do.
    refusal: Option<Errno>,
}

/// How far an attempt has come.
#[derive(Debug)]
pub(super) enum Progress {
    Connected(OwnedFd),
    Waiting(Attempt),
}

impl Attempt {
    pub(super) fn new(port: u16) -> Self {
        let addresses: [SocketAddr; 2] = [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
        Self { socket: None, left: Vec::from(addresses).into_iter(), refusal: None }
    }

    /// What to wait for before [`proceed`](Self::proceed) can do something.
    pub(super) fn interest(&self) -> Option<PollFd<'_>> {
        self.socket.as_ref().map(|socket| PollFd::new(socket, PollFlags::OUT))
    }

    /// Goes on as far as it can now. The error is that of the first address.
    pub(super) fn proceed(mut self) -> io::Result<Progress> {
        loop {
            let outcome = match self.socket.take() {
                Some(socket) => look_at(&socket).map(|connected| (socket, connected)),
                None => match self.left.next() {
                    Some(address) => begin(&address),
                    None => return Err(self.refusal.unwrap_or(Errno::CONNREFUSED).into()),
                },
            };
            match outcome {
                Ok((socket, true)) => {
                    // Whoever talks through us has collected what belongs together already.
                    let _ = set_tcp_nodelay(&socket, true);
                    return Ok(Progress::Connected(socket));
                }
                Ok((socket, false)) => {
                    self.socket = Some(socket);
                    return Ok(Progress::Waiting(self));
                }
                Err(errno) => drop(self.refusal.get_or_insert(errno)),
            }
        }
    }
}

/// Returns the socket, and whether it is connected already.
fn begin(address: &SocketAddr) -> rustix::io::Result<(OwnedFd, bool)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    match connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(errno) => return Err(errno),
    }
    let connected = look_at(&socket)?;
    Ok((socket, connected))
}

/// Whether it is connected; an error when it never will be.
fn look_at(socket: &OwnedFd) -> rustix::io::Result<bool> {
    match getpeername(socket) {
        // When nobody listens, the kernel may choose that very port for our own end, and connect us with ourselves.
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
            poll(&mut attempt.interest().into_iter().collect::<Vec<_>>(), None).unwrap();
        }
    }

    #[test]
    fn either_loopback_address_does() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let socket = finish(Attempt::new(listener.local_addr().unwrap().port())).unwrap();
            assert_eq!(TcpStream::from(socket).peer_addr().unwrap(), listener.local_addr().unwrap());
        }
    }

    #[test]
    fn nobody_is_connected_with_himself() {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        connect(&socket, &getsockname(&socket).unwrap()).unwrap();
        assert_eq!(look_at(&socket), Err(Errno::CONNREFUSED));
    }
}
