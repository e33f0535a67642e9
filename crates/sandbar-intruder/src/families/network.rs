//! Sockets and changes that need `CAP_NET_RAW` or `CAP_NET_ADMIN`, and rare address families.

use std::{fs, io};

use crate::{
    attempt::{Attempt, Family},
    call::{Argument, call, descriptor},
    facts::Facts,
    verdict::{Outcome, escaped, held, not_permitted, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "network",
    attempts: &[
        Attempt::new(
            "network-raw",
            "creates a raw ICMP socket; escaped when the call succeeds",
            |_| socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        ),
        Attempt::new(
            "network-raw-6",
            "creates a raw ICMPv6 socket; escaped when the call succeeds",
            |_| socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
        ),
        Attempt::new(
            "network-packet",
            "creates a packet socket; escaped when the call succeeds",
            |_| {
                // ETH_P_ALL in network order.
                socket(libc::AF_PACKET, libc::SOCK_RAW, 0x0300)
            },
        ),
        Attempt::new(
            "network-vsock",
            "creates a vsock, which connects to the hypervisor; escaped when the call succeeds",
            |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ),
        Attempt::new(
            "network-crypto",
            "creates an AF_ALG socket of the kernel's crypto API; escaped when the call succeeds",
            |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        ),
        Attempt::new(
            "network-rare-families",
            "creates sockets of rarely used address families; escaped when one call succeeds",
            |_| rare_families(),
        ),
        Attempt::new(
            "network-routes",
            "deletes a nonexistent network interface over netlink; escaped when the permission check passes",
            |_| not_permitted(delete_interface(), "interface removal permitted"),
        ),
        Attempt::new(
            "network-interface-call",
            "sets flags of a nonexistent network interface by ioctl; escaped when the permission check passes",
            |_| interface_flags(),
        ),
        Attempt::new(
            "network-filter",
            "requests the nftables generation over netlink; escaped when the permission check passes",
            |_| not_permitted(packet_filter(), "nftables request permitted"),
        ),
        Attempt::new(
            "network-interfaces",
            "searches for network interfaces other than loopback and unused tunnels; escaped when there is one",
            interfaces,
        ),
    ],
};

fn socket(family: i32, kind: i32, protocol: i32) -> Outcome {
    refused(
        descriptor(call!(
            SYS_socket,
            family,
            kind | libc::SOCK_CLOEXEC,
            protocol
        )),
        "socket created",
    )
}

fn rare_families() -> Outcome {
    let families = [
        libc::AF_X25,
        libc::AF_AX25,
        libc::AF_KEY,
        libc::AF_RDS,
        libc::AF_CAN,
        libc::AF_TIPC,
        libc::AF_BLUETOOTH,
        libc::AF_RXRPC,
        libc::AF_NFC,
        libc::AF_XDP,
    ];
    for family in families {
        for kind in [
            libc::SOCK_RAW,
            libc::SOCK_DGRAM,
            libc::SOCK_STREAM,
            libc::SOCK_SEQPACKET,
        ] {
            if descriptor(call!(SYS_socket, family, kind | libc::SOCK_CLOEXEC, 0)).is_ok() {
                return escaped(format!("created a socket of family {family}"));
            }
        }
    }
    held(format!("no socket of {} families created", families.len()))
}

/// Sends one netlink message and returns the error in the kernel's answer.
fn netlink(protocol: i32, kind: u16, body: &[u8]) -> io::Result<()> {
    const ERROR: u16 = 2;
    let socket = descriptor(call!(
        SYS_socket,
        libc::AF_NETLINK,
        libc::SOCK_RAW | libc::SOCK_CLOEXEC,
        protocol
    ))?;
    let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_ACK).map_err(io::Error::other)?;
    let mut message = Vec::new();
    message.extend(
        u32::try_from(16 + body.len())
            .map_err(io::Error::other)?
            .to_ne_bytes(),
    );
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    let length = message.len();
    call!(
        SYS_sendto,
        &socket,
        Argument::read(message.as_slice()),
        length,
        0,
        Argument::NULL,
        0
    )?;
    let mut answer = [0_u8; 4096];
    let room = answer.len();
    call!(
        SYS_recvfrom,
        &socket,
        Argument::write(&mut answer),
        room,
        0,
        Argument::NULL,
        Argument::NULL
    )?;
    let number = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    if u16::from_ne_bytes([answer[4], answer[5]]) == ERROR && number != 0 {
        return Err(io::Error::from_raw_os_error(-number));
    }
    Ok(())
}

fn delete_interface() -> io::Result<()> {
    // Family, type, index, flags, change mask; no interface has this index.
    let mut body = vec![0; 4];
    body.extend(i32::MAX.to_ne_bytes());
    body.extend([0; 8]);
    netlink(libc::NETLINK_ROUTE, libc::RTM_DELLINK, &body)
}

fn packet_filter() -> io::Result<()> {
    const NFTABLES: u16 = 10;
    const GET_GENERATION: u16 = 16;
    netlink(
        libc::NETLINK_NETFILTER,
        NFTABLES << 8 | GET_GENERATION,
        &[0; 4],
    )
}

fn interface_flags() -> Outcome {
    let socket = match descriptor(call!(
        SYS_socket,
        libc::AF_INET,
        libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
        0
    )) {
        Ok(socket) => socket,
        Err(error) => return held(error),
    };
    let mut request = [0_u8; 40];
    request[..8].copy_from_slice(b"no-such0");
    not_permitted(
        call!(
            SYS_ioctl,
            &socket,
            libc::SIOCSIFFLAGS,
            Argument::write(&mut request)
        ),
        "interface change permitted",
    )
}

fn interfaces(_: &Facts) -> Outcome {
    let list = match fs::read_to_string("/proc/net/dev") {
        Ok(list) => list,
        Err(error) => return held(error),
    };
    let names = list
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim());
    // The kernel creates these tunnels in every namespace; they carry nothing until configured.
    let idle = [
        "lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0",
        "ip6gre0",
    ];
    match names.into_iter().find(|name| !idle.contains(name)) {
        Some(name) => escaped(format!("interface {name} exists")),
        None => held("only loopback and unused tunnels"),
    }
}
