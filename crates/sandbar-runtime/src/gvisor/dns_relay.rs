//! DNS relay on the loopback of a container.
//!
//! Programs without a configured name server query 127.0.0.1, and many configurations name a server
//! there. Traffic to a container's loopback stays in its own network stack, so a process beside
//! init relays DNS queries from there to the host's egress gateway.

#![expect(unsafe_code, reason = "`fork` and `_exit` have no safe wrapper")]

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};
use sandbar_netns::GATEWAY_V4;

use crate::native::capabilities;

const PORT: u16 = 53;

/// Addresses that local name servers usually listen on.
const ADDRESSES: [SocketAddr; 3] = [
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), PORT),
    SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), PORT),
];

/// Limits the pending queries. The oldest is dropped for a new one, and its client retries.
const MAX_QUERIES: usize = 64;
/// Limits the TCP connections.
const MAX_CONNECTIONS: usize = 16;
const MAX_MESSAGE_BYTES: usize = 65_535;
/// Limits how long a TCP connection may be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Forks the relay, which runs as this user until the container ends.
pub(super) fn start(user: u32) -> io::Result<()> {
    // SAFETY: this process is single-threaded, so the child need not be async-signal-safe.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _ = run(user);
            // SAFETY: exits without unwinding; there is nothing to clean up.
            unsafe { libc::_exit(1) }
        }
        _ => Ok(()),
    }
}

fn run(user: u32) -> io::Result<()> {
    const MAX_INHERITED_FD: i32 = 64;
    for number in 0..MAX_INHERITED_FD {
        // SAFETY: this copy of init does not use the inherited descriptors.
        unsafe { libc::close(number) };
    }
    let datagrams: Vec<UdpSocket> = ADDRESSES
        .iter()
        .filter_map(|address| UdpSocket::bind(address).ok())
        .collect();
    let connections: Vec<TcpListener> = ADDRESSES
        .iter()
        .filter_map(|address| TcpListener::bind(address).ok())
        .collect();
    capabilities::switch_user_keeping(user)?;
    capabilities::drop_all()?;
    let mut relay = Relay {
        datagrams,
        connections,
        queries: Vec::new(),
        counted: Arc::new(()),
    };
    loop {
        relay.step()?;
    }
}

struct Relay {
    datagrams: Vec<UdpSocket>,
    connections: Vec<TcpListener>,
    queries: Vec<Query>,
    /// Cloned by every connection, to count them.
    counted: Arc<()>,
}

/// A relayed query.
struct Query {
    /// Socket to the gateway.
    upstream: UdpSocket,
    client: SocketAddr,
    /// Index of the listening socket.
    listener: usize,
}

impl Relay {
    /// Waits for queries, answers or connections and relays them.
    fn step(&mut self) -> io::Result<()> {
        let datagrams = self.datagrams.iter().map(AsFd::as_fd);
        let connections = self.connections.iter().map(AsFd::as_fd);
        let queries = self.queries.iter().map(|query| query.upstream.as_fd());
        let sockets: Vec<_> = datagrams.chain(connections).chain(queries).collect();
        let mut waiting: Vec<_> = sockets
            .iter()
            .map(|socket| PollFd::new(socket, PollFlags::IN))
            .collect();
        match poll(&mut waiting, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<bool> = waiting
            .iter()
            .map(|socket| !socket.revents().is_empty())
            .collect();
        let (asked, rest) = ready.split_at(self.datagrams.len());
        let (connected, answered) = rest.split_at(self.connections.len());
        let mut answered = answered.iter();
        self.queries.retain(|query| {
            let is_answered = answered.next() == Some(&true);
            if is_answered {
                // The client may be gone.
                let _ = query.answer(&self.datagrams[query.listener]);
            }
            !is_answered
        });
        for listener in indices(asked) {
            if let Ok(query) = relay_query(&self.datagrams[listener], listener) {
                if self.queries.len() >= MAX_QUERIES {
                    self.queries.remove(0);
                }
                self.queries.push(query);
            }
        }
        for index in indices(connected) {
            let Ok((stream, _)) = self.connections[index].accept() else {
                continue;
            };
            if Arc::strong_count(&self.counted) <= MAX_CONNECTIONS {
                let counted = Arc::clone(&self.counted);
                // If no thread can be started, the connection is closed.
                let _ = std::thread::Builder::new().spawn(move || {
                    let outcome = relay_connection(stream);
                    drop(counted);
                    outcome
                });
            }
        }
        Ok(())
    }
}

fn indices(ready: &[bool]) -> impl Iterator<Item = usize> {
    ready
        .iter()
        .enumerate()
        .filter(|(_, ready)| **ready)
        .map(|(index, _)| index)
}

fn relay_query(socket: &UdpSocket, listener: usize) -> io::Result<Query> {
    let mut message = vec![0; MAX_MESSAGE_BYTES];
    let (length, client) = socket.recv_from(&mut message)?;
    let upstream = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    upstream.connect((GATEWAY_V4, PORT))?;
    upstream.send(&message[..length])?;
    Ok(Query {
        upstream,
        client,
        listener,
    })
}

impl Query {
    fn answer(&self, socket: &UdpSocket) -> io::Result<()> {
        let mut message = vec![0; MAX_MESSAGE_BYTES];
        let length = self.upstream.recv(&mut message)?;
        socket.send_to(&message[..length], self.client).map(drop)
    }
}

/// Relays queries and answers over TCP, one after the other.
fn relay_connection(mut client: TcpStream) -> io::Result<()> {
    let mut gateway = TcpStream::connect((GATEWAY_V4, PORT))?;
    for stream in [&client, &gateway] {
        stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
        stream.set_write_timeout(Some(IDLE_TIMEOUT))?;
    }
    loop {
        copy_message(&mut client, &mut gateway)?;
        copy_message(&mut gateway, &mut client)?;
    }
}

/// Copies one message, which begins with its length.
fn copy_message(from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
    let mut length = [0; 2];
    from.read_exact(&mut length)?;
    let mut message = length.to_vec();
    message.resize(2 + usize::from(u16::from_be_bytes(length)), 0);
    from.read_exact(&mut message[2..])?;
    to.write_all(&message)
}
