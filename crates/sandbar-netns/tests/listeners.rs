//! Netns listeners, tested from the session's and the host's side. Needs root.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    unsafe_code,
    reason = "the tests read control messages and set socket options"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up has failed"
)]

use std::{
    io::{self, Read, Write},
    mem::MaybeUninit,
    net::{
        IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream,
        UdpSocket,
    },
    os::fd::{AsRawFd, OwnedFd},
    process::Command,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbar_netns::{
    BOX_V4, BOX_V6, GATEWAY_V4, GATEWAY_V6, LinkedNetwork, NetnsListeners, TCP_LISTENER_PORT,
    UdpListener, create, in_namespace, open_linked_listeners, open_listeners, reopen_udp,
};

const IO_TIMEOUT: Duration = Duration::from_mins(1);

/// Runs a test in a new namespace with open listeners.
fn with_listeners(udp_ports: &[u16], test: impl FnOnce(NetnsListeners) + Send) {
    let namespace = create().unwrap();
    in_namespace(&namespace, || {
        test(open_listeners(udp_ports)?);
        Ok(())
    })
    .unwrap();
}

fn has_ipv6(gate: &NetnsListeners) -> bool {
    gate.tcp.len() > 1
}

fn wait_for(socket: &impl std::os::fd::AsFd) {
    let timeout = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    assert_eq!(
        poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)).unwrap(),
        1,
        "nothing came"
    );
}

fn is_quiet(socket: &impl std::os::fd::AsFd) -> bool {
    poll(
        &mut [PollFd::new(socket, PollFlags::IN)],
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )
    .unwrap()
        == 0
}

fn listener_for(gate: &NetnsListeners, to: SocketAddr) -> &TcpListener {
    &gate.tcp[usize::from(to.is_ipv6())]
}

fn datagrams_for(gates: &[UdpListener], to: SocketAddr) -> &UdpSocket {
    let gate = gates.iter().find(|gate| {
        gate.port == to.port() && gate.socket.local_addr().unwrap().is_ipv4() == to.is_ipv4()
    });
    &gate.expect("a socket at that port").socket
}

/// Exchanges data and returns the peer and local address of the accepted connection.
fn talk_tcp(listener: &TcpListener, to: SocketAddr) -> (SocketAddr, SocketAddr) {
    let mut inside =
        TcpStream::connect_timeout(&to, IO_TIMEOUT).unwrap_or_else(|error| panic!("{to}: {error}"));
    wait_for(listener);
    let (mut outside, from) = listener.accept().unwrap();
    outside.set_nonblocking(false).unwrap();
    let mut heard = [0; 2];
    inside.write_all(b"hi").unwrap();
    outside.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hi");
    outside.write_all(b"yo").unwrap();
    inside.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"yo");
    (from, outside.local_addr().unwrap())
}

/// Receives a datagram and returns its source and its original destination.
fn receive(socket: &UdpSocket) -> (SocketAddr, SocketAddr) {
    wait_for(socket);
    let mut bytes = [0_u8; 64];
    let mut control = [0_u64; 32];
    let mut from = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: buffers of our own with their lengths; what the kernel says about the datagram is
    // read within them.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_name = from.as_mut_ptr().cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>().try_into().unwrap();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        assert!(
            libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) >= 0,
            "{}",
            io::Error::last_os_error()
        );
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let kind = ((*header).cmsg_level, (*header).cmsg_type);
            if kind == (libc::IPPROTO_IP, libc::IP_ORIGDSTADDR)
                || kind == (libc::IPPROTO_IPV6, libc::IPV6_ORIGDSTADDR)
            {
                return (
                    address(from.as_ptr().cast()),
                    address(libc::CMSG_DATA(header)),
                );
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    panic!("a datagram does not tell where it was meant to go");
}

/// # Safety
/// `raw` must point to an IPv4 or IPv6 socket address.
unsafe fn address(raw: *const u8) -> SocketAddr {
    // SAFETY: the caller says so.
    unsafe {
        if raw.cast::<libc::sa_family_t>().read_unaligned() == u16::try_from(libc::AF_INET).unwrap()
        {
            let raw = raw.cast::<libc::sockaddr_in>().read_unaligned();
            SocketAddrV4::new(
                u32::from_be(raw.sin_addr.s_addr).into(),
                u16::from_be(raw.sin_port),
            )
            .into()
        } else {
            let raw = raw.cast::<libc::sockaddr_in6>().read_unaligned();
            SocketAddrV6::new(
                raw.sin6_addr.s6_addr.into(),
                u16::from_be(raw.sin6_port),
                0,
                0,
            )
            .into()
        }
    }
}

/// Sends an answer with `from` as source address.
fn answer(socket: &UdpSocket, to: SocketAddr, from: IpAddr) {
    let mut part = libc::iovec {
        iov_base: b"answer".as_ptr().cast_mut().cast(),
        iov_len: 6,
    };
    let mut control = [0_u64; 8];
    // SAFETY: buffers of our own with their lengths; the address is the one of the kind the socket
    // is.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let (mut v4, mut v6): (libc::sockaddr_in, libc::sockaddr_in6) = std::mem::zeroed();
        let space = match (from, to) {
            (IpAddr::V4(from), SocketAddr::V4(to)) => {
                v4.sin_family = libc::AF_INET.try_into().unwrap();
                v4.sin_addr.s_addr = u32::from(*to.ip()).to_be();
                v4.sin_port = to.port().to_be();
                message.msg_name = (&raw mut v4).cast();
                message.msg_namelen = size_of_val(&v4).try_into().unwrap();
                (*header).cmsg_level = libc::IPPROTO_IP;
                (*header).cmsg_type = libc::IP_PKTINFO;
                let mut info: libc::in_pktinfo = std::mem::zeroed();
                info.ipi_spec_dst.s_addr = u32::from(from).to_be();
                libc::CMSG_DATA(header)
                    .cast::<libc::in_pktinfo>()
                    .write_unaligned(info);
                size_of::<libc::in_pktinfo>()
            }
            (IpAddr::V6(from), SocketAddr::V6(to)) => {
                v6.sin6_family = libc::AF_INET6.try_into().unwrap();
                v6.sin6_addr.s6_addr = to.ip().octets();
                v6.sin6_port = to.port().to_be();
                message.msg_name = (&raw mut v6).cast();
                message.msg_namelen = size_of_val(&v6).try_into().unwrap();
                (*header).cmsg_level = libc::IPPROTO_IPV6;
                (*header).cmsg_type = libc::IPV6_PKTINFO;
                let mut info: libc::in6_pktinfo = std::mem::zeroed();
                info.ipi6_addr.s6_addr = from.octets();
                libc::CMSG_DATA(header)
                    .cast::<libc::in6_pktinfo>()
                    .write_unaligned(info);
                size_of::<libc::in6_pktinfo>()
            }
            _ => panic!("two families"),
        };
        (*header).cmsg_len = libc::CMSG_LEN(space.try_into().unwrap()) as usize;
        message.msg_controllen = libc::CMSG_SPACE(space.try_into().unwrap()) as usize;
        assert_eq!(
            libc::sendmsg(socket.as_raw_fd(), &raw const message, 0),
            6,
            "{}",
            io::Error::last_os_error()
        );
    }
}

/// Sends a datagram to `to` and receives an answer from that address.
fn talk_udp(gates: &[UdpListener], to: SocketAddr) {
    let unspecified: IpAddr = if to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let inside = UdpSocket::bind((unspecified, 0)).unwrap();
    inside.set_read_timeout(Some(IO_TIMEOUT)).unwrap();
    inside.connect(to).unwrap();
    inside.send(b"question").unwrap();
    let socket = datagrams_for(gates, to);
    let (from, meant_for) = receive(socket);
    assert_eq!(meant_for, to);
    answer(socket, from, to.ip());
    let mut heard = [0; 16];
    let length = inside.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"answer");
}

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn tcp_listener_gets_connections_to_any_address() {
    with_listeners(&[], |gate| {
        let gateway = SocketAddr::new(GATEWAY_V4.into(), TCP_LISTENER_PORT);
        let proxy = SocketAddr::new(GATEWAY_V4.into(), 3128);
        let v4 = addresses(&[
            "203.0.113.7:443",
            "10.0.0.1:22",
            "169.254.169.254:80",
            "255.1.2.3:65535",
        ]);
        for to in v4.into_iter().chain([gateway, proxy]) {
            let (from, local) = talk_tcp(&gate.tcp[0], to);
            assert_eq!((from.ip(), local), (IpAddr::V4(BOX_V4), to));
        }
        if has_ipv6(&gate) {
            let gateway = SocketAddr::new(GATEWAY_V6.into(), TCP_LISTENER_PORT);
            for to in addresses(&["[2001:db8::7]:443", "[64:ff9b::1]:80", "[fd00::1]:22"])
                .into_iter()
                .chain([gateway])
            {
                let (from, local) = talk_tcp(&gate.tcp[1], to);
                assert_eq!((from.ip(), local), (IpAddr::V6(BOX_V6), to));
            }
            // An IPv4-mapped IPv6 address is an IPv4 destination.
            let (_, local) = talk_tcp(&gate.tcp[0], "[::ffff:9.9.9.9]:443".parse().unwrap());
            assert_eq!(local, "9.9.9.9:443".parse().unwrap());
        }
    });
}

#[test]
fn dns_listener_gets_queries_to_any_address() {
    with_listeners(&[], |gate| {
        for to in addresses(&[
            "8.8.8.8:53",
            "127.0.0.1:53",
            "127.0.0.53:53",
            "192.0.0.1:53",
            "10.0.0.2:53",
        ]) {
            talk_udp(&gate.dns, to);
            let (_, local) = talk_tcp(listener_for(&gate, to), to);
            assert_eq!(local, to);
        }
        if has_ipv6(&gate) {
            for to in addresses(&["[2001:4860:4860::8888]:53", "[::1]:53"]) {
                talk_udp(&gate.dns, to);
                let (_, local) = talk_tcp(listener_for(&gate, to), to);
                assert_eq!(local, to);
            }
        }
    });
}

#[test]
fn datagrams_reach_open_ports_and_are_refused_elsewhere() {
    with_listeners(&[123, 53], |gate| {
        assert!(gate.udp.iter().all(|gate| gate.port == 123));
        let mut open = addresses(&["198.51.100.1:123"]);
        let mut shut = addresses(&["198.51.100.1:124", "192.0.0.1:124"]);
        if has_ipv6(&gate) {
            open.extend(addresses(&["[2001:db8::1]:123"]));
            shut.extend(addresses(&["[2001:db8::1]:124"]));
        }
        for to in open {
            talk_udp(&gate.udp, to);
        }
        for to in shut {
            assert_refused(to);
        }
    });
}

fn assert_refused(to: SocketAddr) {
    let unspecified: IpAddr = if to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let inside = UdpSocket::bind((unspecified, 0)).unwrap();
    inside.set_read_timeout(Some(IO_TIMEOUT)).unwrap();
    inside.connect(to).unwrap();
    inside.send(b"x").unwrap();
    assert_eq!(
        inside.recv(&mut [0; 8]).unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused,
        "{to}"
    );
}

#[test]
fn loopback_servers_of_the_session_stay_private() {
    with_listeners(&[], |gate| {
        let mut own = vec![
            IpAddr::from(Ipv4Addr::LOCALHOST),
            IpAddr::from([127, 9, 9, 9]),
            BOX_V4.into(),
        ];
        if has_ipv6(&gate) {
            own.extend([IpAddr::from(Ipv6Addr::LOCALHOST), BOX_V6.into()]);
        }
        for (address, port) in own
            .into_iter()
            .flat_map(|address| [(address, 8081), (address, 53)])
        {
            let server = TcpListener::bind((address, port)).unwrap();
            let (_, local) = talk_tcp(&server, SocketAddr::new(address, port));
            assert_eq!(local, SocketAddr::new(address, port));
            let server = UdpSocket::bind((address, port)).unwrap();
            let client = UdpSocket::bind((address, 0)).unwrap();
            client.send_to(b"own", (address, port)).unwrap();
            wait_for(&server);
            let mut heard = [0; 8];
            let (length, from) = server.recv_from(&mut heard).unwrap();
            assert_eq!(
                (&heard[..length], from),
                (&b"own"[..], client.local_addr().unwrap())
            );
        }
        assert!(
            gate.tcp.iter().all(is_quiet) && gate.dns.iter().all(|gate| is_quiet(&gate.socket))
        );
        // No listener: refused by the session's own network stack.
        let refused =
            TcpStream::connect_timeout(&"127.0.0.1:8082".parse().unwrap(), IO_TIMEOUT).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn packets_other_than_tcp_and_udp_are_dropped() {
    with_listeners(&[], |gate| {
        let raw = |protocol: i32| {
            // SAFETY: makes a descriptor, which becomes ours.
            let socket = unsafe {
                libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol)
            };
            assert!(socket >= 0, "{}", io::Error::last_os_error());
            // SAFETY: just made.
            unsafe { <UdpSocket as std::os::fd::FromRawFd>::from_raw_fd(socket) }
        };
        let echo_request = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
        let ping = raw(libc::IPPROTO_ICMP);
        ping.send_to(&echo_request, "8.8.8.8:0").unwrap();
        let gre = raw(libc::IPPROTO_GRE);
        gre.send_to(&[0; 8], "8.8.8.8:0").unwrap();
        // What was sent has come back round the loopback by now, had it been let through.
        talk_tcp(&gate.tcp[0], "203.0.113.7:443".parse().unwrap());
        assert!(is_quiet(&ping) && is_quiet(&gre));
        // The loopback answers.
        ping.send_to(&echo_request, "127.0.0.1:0").unwrap();
        wait_for(&ping);
    });
}

#[test]
fn traffic_without_listeners_is_refused_at_once() {
    with_listeners(&[123], |gate| {
        let to = "203.0.113.7:443".parse().unwrap();
        let mut inside = TcpStream::connect_timeout(&to, IO_TIMEOUT)
            .unwrap_or_else(|error| panic!("{to}: {error}"));
        wait_for(&gate.tcp[0]);
        drop(gate);
        assert_eq!(
            inside.read(&mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
        let error = TcpStream::connect_timeout(&to, IO_TIMEOUT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_refused("198.51.100.1:123".parse().unwrap());
        assert_refused("198.51.100.1:53".parse().unwrap());
        let again = open_listeners(&[]).unwrap();
        talk_tcp(&again.tcp[0], to);
        talk_udp(&again.dns, "127.0.0.1:53".parse().unwrap());
    });
}

#[test]
fn udp_ports_change_while_listeners_stay_open() {
    with_listeners(&[123], |gate| {
        let rules = list("ruleset");
        let fresh = reopen_udp(&[123, 4433]).unwrap();
        drop(gate.udp);
        talk_udp(&fresh, "198.51.100.1:123".parse().unwrap());
        talk_udp(&fresh, "198.51.100.1:4433".parse().unwrap());
        drop(fresh);
        let fresh = reopen_udp(&[4433]).unwrap();
        assert_refused("198.51.100.1:123".parse().unwrap());
        talk_udp(&fresh, "198.51.100.1:4433".parse().unwrap());
        talk_tcp(&gate.tcp[0], "203.0.113.7:443".parse().unwrap());
        assert_eq!(list("ruleset"), rules);
        assert_eq!(
            routes(),
            vec!["local default dev lo scope host src 192.0.0.2".to_owned()]
        );
    });
}

#[test]
fn port_bound_by_the_session_is_reported() {
    with_listeners(&[], |gate| {
        let own = UdpSocket::bind("0.0.0.0:4433").unwrap();
        let error = reopen_udp(&[4433]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains("UDP port 4433"), "{error}");
        drop((own, gate));
    });
}

fn list(what: &str) -> String {
    let output = Command::new("nft")
        .args(["-n", "list", what])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn routes() -> Vec<String> {
    let output = Command::new("ip")
        .args(["route", "show", "table", "main"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn installed_rules_match_the_expected_nft_listing() {
    with_listeners(&[123], |gate| {
        assert!(has_ipv6(&gate), "this list is of a machine with IPv6");
        let expected = "table inet sandbar {
	chain gate {
		type filter hook prerouting priority -150; policy drop;
		ip daddr 127.0.0.0/8 tcp dport 53 socket transparent 0 accept
		ip daddr 127.0.0.0/8 udp dport 53 socket transparent 0 accept
		ip daddr 127.0.0.0/8 tcp dport 53 tproxy ip to 192.0.0.1:1 accept
		ip daddr 127.0.0.0/8 udp dport 53 tproxy ip to 192.0.0.1 accept
		ip daddr 127.0.0.0/8 accept
		ip daddr 192.0.0.2 accept
		ip6 daddr ::1 tcp dport 53 socket transparent 0 accept
		ip6 daddr ::1 udp dport 53 socket transparent 0 accept
		ip6 daddr ::1 tcp dport 53 tproxy ip6 to [fd73:616e:6462::1]:1 accept
		ip6 daddr ::1 udp dport 53 tproxy ip6 to [fd73:616e:6462::1] accept
		ip6 daddr ::1 accept
		ip6 daddr fd73:616e:6462::2 accept
		meta nfproto 2 meta l4proto 6 tproxy ip to 192.0.0.1:1 accept
		meta nfproto 2 meta l4proto 17 tproxy ip to 192.0.0.1 accept
		meta nfproto 10 meta l4proto 6 tproxy ip6 to [fd73:616e:6462::1]:1 accept
		meta nfproto 10 meta l4proto 17 tproxy ip6 to [fd73:616e:6462::1] accept
		meta l4proto 6 reject with tcp reset
		meta l4proto 17 reject
	}
}
";
        assert_eq!(list("ruleset"), expected);
    });
}

#[test]
fn namespace_without_listeners_reaches_nothing() {
    let inode = |namespace: &OwnedFd| rustix::fs::fstat(namespace).unwrap().st_ino;
    let [one, two] = [create().unwrap(), create().unwrap()];
    assert_ne!(inode(&one), inode(&two));
    let to = "203.0.113.7:443".parse().unwrap();
    let gate = in_namespace(&one, || open_listeners(&[])).unwrap();
    let unreachable =
        in_namespace(&two, || TcpStream::connect_timeout(&to, IO_TIMEOUT)).unwrap_err();
    assert_eq!(unreachable.kind(), io::ErrorKind::NetworkUnreachable);
    let other = in_namespace(&two, || open_listeners(&[])).unwrap();
    let inside = in_namespace(&two, || TcpStream::connect_timeout(&to, IO_TIMEOUT)).unwrap();
    wait_for(&other.tcp[0]);
    assert!(is_quiet(&gate.tcp[0]));
    drop(inside);
}

#[test]
fn linked_traffic_reaches_the_listeners() {
    let network = LinkedNetwork::create().unwrap();
    let gate = in_namespace(&network.host_side, || open_linked_listeners(&[123])).unwrap();
    in_namespace(&network.box_side, || {
        let mut v4 = addresses(&[
            "203.0.113.7:443",
            "10.0.0.1:22",
            "192.0.0.1:3128",
            "192.0.0.5:80",
        ]);
        if has_ipv6(&gate) {
            v4.extend(addresses(&[
                "[2001:db8::7]:443",
                "[fd73:616e:6462::1]:3128",
                "[fd73:616e:6462::7]:80",
            ]));
        }
        for to in v4 {
            let own: IpAddr = if to.is_ipv4() {
                BOX_V4.into()
            } else {
                BOX_V6.into()
            };
            let (from, local) = talk_tcp(listener_for(&gate, to), to);
            assert_eq!((from.ip(), local), (own, to));
        }
        for to in addresses(&["8.8.8.8:53", "192.0.0.1:53", "198.51.100.1:123"]) {
            talk_udp(
                if to.port() == 53 {
                    &gate.dns
                } else {
                    &gate.udp
                },
                to,
            );
        }
        if has_ipv6(&gate) {
            talk_udp(&gate.dns, "[2001:db8::8]:53".parse().unwrap());
            assert_refused("[2001:db8::8]:124".parse().unwrap());
        }
        assert_refused("198.51.100.1:124".parse().unwrap());
        Ok(())
    })
    .unwrap();
    let fresh = in_namespace(&network.host_side, || reopen_udp(&[124])).unwrap();
    in_namespace(&network.box_side, || {
        talk_udp(&fresh, "198.51.100.1:124".parse().unwrap());
        Ok(())
    })
    .unwrap();
}
