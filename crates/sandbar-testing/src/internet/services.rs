//! Addresses and protocols of the servers.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

/// Many hosts at one address: `allowed.example`, `other.example`, `attacker.example` and what else
/// the zone sends here.
pub const WEB: &str = "203.0.113.10";
pub const WEB_V6: &str = "2001:db8::10";
/// A host of its own, for secrets.
pub const API: &str = "203.0.113.11";
/// Echoes its input over TCP and UDP.
pub const ECHO: &str = "203.0.113.20";
/// Speaks first.
pub const SSH: &str = "203.0.113.22";
/// A public resolver, over DNS, DoT and DoH.
pub const PUBLIC_RESOLVER: &str = "203.0.113.53";
/// The resolver of the host.
pub const DNS: &str = "192.0.2.53";
/// The attacker, which must not be reached. Listens on every port that a test tries.
pub const ATTACKER: &str = "198.51.100.66";
pub const ATTACKER_V6: &str = "2001:db8:bad::66";
/// A host of the private network.
pub const INTRANET: &str = "10.66.0.10";
pub const METADATA: &str = "169.254.169.254";
/// The host itself, in public.
pub const HOST: &str = "203.0.113.200";

/// Protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Http,
    Https,
    Echo,
    /// Sends its name, then echoes.
    Banner,
    DnsTcp,
    DnsTls,
    DnsUdp,
    EchoUdp,
}

use Speaks::{Banner, DnsTcp, DnsTls, DnsUdp, Echo, EchoUdp, Http, Https};

pub(super) const OF_THE_INTERNET: &[(&str, &[(u16, Speaks)])] = &[
    (
        WEB,
        &[(80, Http), (8080, Http), (443, Https), (8443, Https)],
    ),
    (WEB_V6, &[(80, Http), (443, Https)]),
    (API, &[(80, Http), (443, Https)]),
    (
        ECHO,
        &[(7, Echo), (9000, Echo), (9001, EchoUdp), (9002, EchoUdp)],
    ),
    (SSH, &[(22, Banner)]),
    (
        PUBLIC_RESOLVER,
        &[(53, DnsTcp), (53, DnsUdp), (853, DnsTls), (443, Https)],
    ),
    (DNS, &[(53, DnsTcp), (53, DnsUdp)]),
    (
        ATTACKER,
        &[
            (53, DnsTcp),
            (53, DnsUdp),
            (853, DnsTls),
            (80, Http),
            (443, Https),
            (22, Banner),
            (9000, Echo),
            (9001, EchoUdp),
        ],
    ),
    (
        ATTACKER_V6,
        &[(80, Http), (443, Https), (9000, Echo), (9001, EchoUdp)],
    ),
    (INTRANET, &[(80, Http), (443, Https), (9000, Echo)]),
    (METADATA, &[(80, Http)]),
];

/// On its loopback, and on its address in public.
pub(super) const OF_THE_HOST: &[(&str, &[(u16, Speaks)])] = &[
    (
        "127.0.0.1",
        &[(8080, Http), (9000, Echo), (9001, EchoUdp), (443, Https)],
    ),
    ("::1", &[(8080, Http), (9000, Echo)]),
    (
        HOST,
        &[(8080, Http), (9000, Echo), (9001, EchoUdp), (443, Https)],
    ),
];

/// A socket of a server.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener, Speaks),
    Udp(UdpSocket, Speaks),
}

/// Binds the sockets of servers in the namespace of the calling thread.
pub(super) fn bind(hosts: &[(&str, &[(u16, Speaks)])]) -> Vec<Socket> {
    let places = hosts.iter().flat_map(|(host, ports)| {
        ports
            .iter()
            .map(move |(port, speaks)| (host, port, *speaks))
    });
    let bound = places.map(|(host, port, speaks)| {
        let place = SocketAddr::new(address(host), *port);
        if matches!(speaks, DnsUdp | EchoUdp) {
            let socket = UdpSocket::bind(place).unwrap();
            socket.set_nonblocking(true).unwrap();
            Socket::Udp(socket, speaks)
        } else {
            let listener = TcpListener::bind(place).unwrap();
            listener.set_nonblocking(true).unwrap();
            Socket::Tcp(listener, speaks)
        }
    });
    bound.collect()
}

pub(super) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}
