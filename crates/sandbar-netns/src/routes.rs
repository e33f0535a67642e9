//! Addresses and routes, which make every address local to the namespace.

use std::{fs, io, net::IpAddr};

use crate::{
    addresses::{BOX_V4, BOX_V6, GATEWAY_V4, GATEWAY_V6, family, octets},
    link::LOOPBACK,
    netlink::{Messages, Netlink},
};

const REPLACE: i32 = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

/// No duplicate address detection, since there is no other host; and no prefix route
/// (`IFA_F_NOPREFIXROUTE`): IPv6 adds the local route of an address with a delay, in which the
/// prefix route would match instead.
const LOCAL_AT_ONCE: u32 = libc::IFA_F_NODAD | 0x200;

/// Returns whether the calling thread's namespace has IPv6, by the address of its loopback
/// interface, which must be up.
pub(crate) fn has_ipv6() -> bool {
    fs::read("/proc/thread-self/net/if_inet6").is_ok_and(|addresses| !addresses.is_empty())
}

/// Adds the source address of the session, and routes that make all other addresses local.
pub(crate) fn make_all_local(has_ipv6: bool) -> io::Result<()> {
    let mut plan = RoutePlan::default();
    for own in [BOX_V4.into(), BOX_V6.into()]
        .into_iter()
        .filter(|own: &IpAddr| own.is_ipv4() || has_ipv6)
    {
        plan.add_address(LOOPBACK, own, full(own));
        plan.add_local_default(own);
    }
    plan.apply()
}

/// Makes all addresses but that of the box local, on the host side of a link.
pub(crate) fn make_all_but_box_local(link: u32, has_ipv6: bool) -> io::Result<()> {
    let mut plan = RoutePlan::default();
    let pairs: [(IpAddr, IpAddr); 2] = [
        (GATEWAY_V4.into(), BOX_V4.into()),
        (GATEWAY_V6.into(), BOX_V6.into()),
    ];
    for (own, other) in pairs
        .into_iter()
        .filter(|(own, _)| own.is_ipv4() || has_ipv6)
    {
        plan.add_address(link, own, full(own));
        plan.add_link_route(link, other);
        plan.add_local_default(own);
    }
    plan.apply()
}

/// Adds the address and the default route of the box side of a link.
pub(crate) fn route_all_to_host_side(link: u32, has_ipv6: bool) -> io::Result<()> {
    let mut plan = RoutePlan::default();
    let pairs: [(IpAddr, IpAddr, u8); 2] = [
        (BOX_V4.into(), GATEWAY_V4.into(), 29),
        (BOX_V6.into(), GATEWAY_V6.into(), 126),
    ];
    for (own, gateway, length) in pairs
        .into_iter()
        .filter(|(own, ..)| own.is_ipv4() || has_ipv6)
    {
        plan.add_link_address(link, own, length);
        plan.add_default(link, gateway);
    }
    plan.apply()
}

/// Batch of address and route changes.
#[derive(Debug, Default)]
struct RoutePlan {
    messages: Messages,
    count: usize,
}

impl RoutePlan {
    fn add_address(&mut self, link: u32, own: IpAddr, length: u8) {
        self.address(link, own, length, LOCAL_AT_ONCE);
    }

    /// Adds an address with a route to its prefix.
    fn add_link_address(&mut self, link: u32, own: IpAddr, length: u8) {
        self.address(link, own, length, libc::IFA_F_NODAD);
    }

    fn address(&mut self, link: u32, own: IpAddr, length: u8, flags: u32) {
        let mut header = vec![family(own), length, 0, libc::RT_SCOPE_UNIVERSE];
        header.extend(link.to_ne_bytes());
        self.count += 1;
        self.messages
            .add(libc::RTM_NEWADDR, REPLACE, &header, |attributes| {
                attributes.add(libc::IFA_LOCAL, &octets(own));
                attributes.add(libc::IFA_ADDRESS, &octets(own));
                attributes.add(libc::IFA_FLAGS, &flags.to_ne_bytes());
            });
    }

    /// Adds a route that makes every address local, with `own` as source address.
    fn add_local_default(&mut self, own: IpAddr) {
        let scope = if own.is_ipv4() {
            libc::RT_SCOPE_HOST
        } else {
            libc::RT_SCOPE_UNIVERSE
        };
        self.route(
            own,
            0,
            scope,
            libc::RTN_LOCAL,
            &[
                (libc::RTA_OIF, LOOPBACK.to_ne_bytes().to_vec()),
                (libc::RTA_PREFSRC, octets(own)),
            ],
        );
    }

    fn add_link_route(&mut self, link: u32, to: IpAddr) {
        let scope = if to.is_ipv4() {
            libc::RT_SCOPE_LINK
        } else {
            libc::RT_SCOPE_UNIVERSE
        };
        self.route(
            to,
            full(to),
            scope,
            libc::RTN_UNICAST,
            &[
                (libc::RTA_DST, octets(to)),
                (libc::RTA_OIF, link.to_ne_bytes().to_vec()),
            ],
        );
    }

    fn add_default(&mut self, link: u32, gateway: IpAddr) {
        self.route(
            gateway,
            0,
            libc::RT_SCOPE_UNIVERSE,
            libc::RTN_UNICAST,
            &[
                (libc::RTA_GATEWAY, octets(gateway)),
                (libc::RTA_OIF, link.to_ne_bytes().to_vec()),
            ],
        );
    }

    fn route(
        &mut self,
        of: IpAddr,
        length: u8,
        scope: u8,
        kind: u8,
        attributes: &[(u16, Vec<u8>)],
    ) {
        let mut header = vec![
            family(of),
            length,
            0,
            0,
            libc::RT_TABLE_MAIN,
            libc::RTPROT_BOOT,
            scope,
            kind,
        ];
        header.extend([0; 4]);
        self.count += 1;
        self.messages
            .add(libc::RTM_NEWROUTE, REPLACE, &header, |message| {
                for (kind, value) in attributes {
                    message.add(*kind, value);
                }
            });
    }

    fn apply(self) -> io::Result<()> {
        Netlink::open(libc::NETLINK_ROUTE)?.send(&self.messages, self.count)
    }
}

/// Returns the prefix length of a single address.
const fn full(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
