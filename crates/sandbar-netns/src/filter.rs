//! The rules by which the kernel hands what a session sends to the gate.
//!
//! They are the same for every session and do not say which UDP ports are open: the gate has a socket at those. What no
//! rule lets pass is dropped.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::{
    addresses::{BOX_V4, BOX_V6, GATE_PORT, GATEWAY_V4, GATEWAY_V6},
    expressions::Rule,
    netlink::{Messages, Netlink},
};

const TABLE: &str = "sandbar";
const CHAIN: &str = "gate";

/// Both families in one table.
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
/// Where the kernel expects packets to be marked.
const MANGLE: i32 = -150;
const DROP: u32 = 0;

const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// How what a session sends gets to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    /// Round the loopback of the namespace both are in.
    Around,
    OverALink,
}

/// Puts the rules in place, all or none. Where they are already, nothing changes.
pub(crate) fn install(has_ipv6: bool, comes: Comes) -> io::Result<()> {
    let mut messages = Messages::default();
    let generic = [INET, 0, 0, 0];
    let [high, low] = SUBSYSTEM.to_be_bytes();
    let batch = [0, 0, high, low];
    messages.add(BATCH_BEGIN, 0, &batch, |_| {});
    messages.add(NEW_TABLE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &generic, |table| table.add_text(TABLE_NAME, TABLE));
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
    let rules = rules(has_ipv6, comes);
    for (number, rule) in rules.iter().enumerate() {
        // One answer for all: an error comes unasked for.
        let answer = if number + 1 == rules.len() { libc::NLM_F_ACK } else { 0 };
        messages.add(NEW_RULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND | answer, &generic, |attributes| {
            attributes.add_text(RULE_TABLE, TABLE);
            attributes.add_text(RULE_CHAIN, CHAIN);
            rule.write(attributes);
        });
    }
    messages.add(BATCH_END, 0, &batch, |_| {});
    match Netlink::open(libc::NETLINK_NETFILTER)?.send(&messages, 1) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

fn rules(has_ipv6: bool, comes: Comes) -> Vec<Rule> {
    let mut rules = Vec::from(own_addresses(Ipv4Addr::LOCALHOST.into(), BOX_V4.into(), GATEWAY_V4.into()));
    if has_ipv6 {
        rules.extend(own_addresses(Ipv6Addr::LOCALHOST.into(), BOX_V6.into(), GATEWAY_V6.into()));
    }
    rules.extend(everything_else(GATEWAY_V4.into()));
    if has_ipv6 {
        rules.extend(everything_else(GATEWAY_V6.into()));
    }
    if has_ipv6 && comes == Comes::OverALink {
        // Who is at the other end is found out over IPv6 itself.
        rules.extend(
            [NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT].map(|kind| Rule::default().icmpv6(kind).accept()),
        );
    }
    // Who sends to a port that nobody opened, or when there is no gate any more, is told at once.
    rules.push(Rule::default().tcp().reset());
    rules.push(Rule::default().udp().refuse());
    rules
}

/// What goes to the session itself, but for names nobody in it answers: a list of name servers that is missing means the
/// loopback, and one made for another machine often names it too.
fn own_addresses(loopback: IpAddr, own: IpAddr, gateway: IpAddr) -> [Rule; 6] {
    [
        Rule::to(loopback).tcp().dns().has_own_socket().accept(),
        Rule::to(loopback).udp().dns().has_own_socket().accept(),
        Rule::to(loopback).tcp().dns().hand_to(gateway, Some(GATE_PORT)).accept(),
        Rule::to(loopback).udp().dns().hand_to(gateway, None).accept(),
        Rule::to(loopback).accept(),
        Rule::to(own).accept(),
    ]
}

/// A UDP port stays the same: there the gate has a socket, or nobody takes it.
fn everything_else(gateway: IpAddr) -> [Rule; 2] {
    [
        Rule::of_family(gateway).tcp().hand_to(gateway, Some(GATE_PORT)).accept(),
        Rule::of_family(gateway).udp().hand_to(gateway, None).accept(),
    ]
}
