//! nftables rules that deliver the traffic of a session to the netns listeners.
//!
//! They are the same for every session. They do not list the open UDP ports: those are the ports
//! with a listener. Packets that no rule accepts are dropped.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::{
    addresses::{BOX_V4, BOX_V6, GATEWAY_V4, GATEWAY_V6, TCP_LISTENER_PORT},
    expressions::Rule,
    netlink::{Messages, Netlink},
};

const TABLE: &str = "sandbar";
const CHAIN: &str = "gate";

/// `NFPROTO_INET`: a table for IPv4 and IPv6.
const INET: u8 = 1;
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;

const TABLE_NAME: u16 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;

const PREROUTING: u32 = 0;
/// Priority of the mangle chains.
const MANGLE: i32 = -150;
const DROP: u32 = 0;

const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Path of the session's packets to the listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ingress {
    /// Over loopback, in the same namespace.
    Loopback,
    /// Over a veth pair, from another namespace.
    Link,
}

/// Installs the rules atomically. Does nothing if they are already installed.
pub(crate) fn install(has_ipv6: bool, ingress: Ingress) -> io::Result<()> {
    let mut messages = Messages::default();
    let generic = [INET, 0, 0, 0];
    let [high, low] = SUBSYSTEM.to_be_bytes();
    let batch = [0, 0, high, low];
    messages.add(BATCH_BEGIN, 0, &batch, |_| {});
    messages.add(
        NEW_TABLE,
        libc::NLM_F_CREATE | libc::NLM_F_EXCL,
        &generic,
        |table| table.add_text(TABLE_NAME, TABLE),
    );
    messages.add(NEW_CHAIN, libc::NLM_F_CREATE, &generic, |chain| {
        chain.add_text(CHAIN_TABLE, TABLE);
        chain.add_text(CHAIN_NAME, CHAIN);
        chain.nest(CHAIN_HOOK, |hook| {
            hook.add(HOOK_NUMBER, &PREROUTING.to_be_bytes());
            hook.add(HOOK_PRIORITY, &MANGLE.to_be_bytes());
        });
        chain.add(CHAIN_POLICY, &DROP.to_be_bytes());
        chain.add_text(CHAIN_TYPE, "filter");
    });
    let rules = rules(has_ipv6, ingress);
    for (number, rule) in rules.iter().enumerate() {
        // One acknowledgement for the batch. Errors are reported without a request.
        let answer = if number + 1 == rules.len() {
            libc::NLM_F_ACK
        } else {
            0
        };
        messages.add(
            NEW_RULE,
            libc::NLM_F_CREATE | libc::NLM_F_APPEND | answer,
            &generic,
            |attributes| {
                attributes.add_text(RULE_TABLE, TABLE);
                attributes.add_text(RULE_CHAIN, CHAIN);
                rule.write(attributes);
            },
        );
    }
    messages.add(BATCH_END, 0, &batch, |_| {});
    match Netlink::open(libc::NETLINK_NETFILTER)?.send(&messages, 1) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

fn rules(has_ipv6: bool, ingress: Ingress) -> Vec<Rule> {
    let mut rules = Vec::from(own_addresses(
        Ipv4Addr::LOCALHOST.into(),
        BOX_V4.into(),
        GATEWAY_V4.into(),
    ));
    if has_ipv6 {
        rules.extend(own_addresses(
            Ipv6Addr::LOCALHOST.into(),
            BOX_V6.into(),
            GATEWAY_V6.into(),
        ));
    }
    rules.extend(everything_else(GATEWAY_V4.into()));
    if has_ipv6 {
        rules.extend(everything_else(GATEWAY_V6.into()));
    }
    if has_ipv6 && ingress == Ingress::Link {
        // IPv6 resolves link-layer addresses by ICMPv6, unlike ARP for IPv4.
        rules.extend(
            [NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT]
                .map(|kind| Rule::default().icmpv6(kind).accept()),
        );
    }
    // Without a listener, connections are reset and datagrams refused at once.
    rules.push(Rule::default().tcp().reset());
    rules.push(Rule::default().udp().refuse());
    rules
}

/// Returns rules that accept traffic to the session's own addresses, except DNS to loopback without
/// a local server, which goes to the host: resolvers query loopback if no name server is
/// configured, and images made for other machines often name it.
fn own_addresses(loopback: IpAddr, own: IpAddr, gateway: IpAddr) -> [Rule; 6] {
    [
        Rule::to(loopback).tcp().dns().has_own_socket().accept(),
        Rule::to(loopback).udp().dns().has_own_socket().accept(),
        Rule::to(loopback)
            .tcp()
            .dns()
            .hand_to(gateway, Some(TCP_LISTENER_PORT))
            .accept(),
        Rule::to(loopback)
            .udp()
            .dns()
            .hand_to(gateway, None)
            .accept(),
        Rule::to(loopback).accept(),
        Rule::to(own).accept(),
    ]
}

/// Returns rules that deliver all other traffic to the listeners. UDP keeps its destination port.
fn everything_else(gateway: IpAddr) -> [Rule; 2] {
    [
        Rule::of_family(gateway)
            .tcp()
            .hand_to(gateway, Some(TCP_LISTENER_PORT))
            .accept(),
        Rule::of_family(gateway)
            .udp()
            .hand_to(gateway, None)
            .accept(),
    ]
}
