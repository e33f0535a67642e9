//! Has every address be one of the namespace itself.

use std::{io, net::IpAddr};

use crate::{
    addresses::{BOX_V4, BOX_V6},
    link::LOOPBACK,
    netlink::{Messages, Netlink},
};

const REPLACE: i32 = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

/// Nobody else can have the address. And IPv6 makes an address local a little later than it is there: a route to it that
/// is not local would win meanwhile.
const AT_ONCE: u32 = libc::IFA_F_NODAD | 0x200;

/// The address connections come from, and the route that makes all others local. Returns whether there is IPv6.
pub(crate) fn make_everything_local() -> io::Result<bool> {
    let netlink = Netlink::open(libc::NETLINK_ROUTE)?;
    make_local(&netlink, BOX_V4.into())?;
    match make_local(&netlink, BOX_V6.into()) {
        Ok(()) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A kernel without IPv6, or one that is told not to use it (which it calls a lack of permission).
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EACCES | libc::ENODEV)
    )
}

fn make_local(netlink: &Netlink, own: IpAddr) -> io::Result<()> {
    let (family, bytes) = match own {
        IpAddr::V4(own) => (libc::AF_INET, own.octets().to_vec()),
        IpAddr::V6(own) => (libc::AF_INET6, own.octets().to_vec()),
    };
    let family = family.to_le_bytes()[0];
    let length = (bytes.len() * 8).to_le_bytes()[0];
    let loopback = LOOPBACK.to_ne_bytes();
    let mut messages = Messages::default();

    let mut header = vec![family, length, 0, libc::RT_SCOPE_UNIVERSE];
    header.extend(loopback);
    messages.add(libc::RTM_NEWADDR, REPLACE, &header, |attributes| {
        attributes.add(libc::IFA_LOCAL, &bytes);
        attributes.add(libc::IFA_ADDRESS, &bytes);
        attributes.add(libc::IFA_FLAGS, &AT_ONCE.to_ne_bytes());
    });

    let scope = if own.is_ipv4() { libc::RT_SCOPE_HOST } else { libc::RT_SCOPE_UNIVERSE };
    let mut header = vec![family, 0, 0, 0, libc::RT_TABLE_MAIN, libc::RTPROT_BOOT, scope, libc::RTN_LOCAL];
    header.extend([0; 4]);
    messages.add(libc::RTM_NEWROUTE, REPLACE, &header, |attributes| {
        attributes.add(libc::RTA_OIF, &loopback);
        attributes.add(libc::RTA_PREFSRC, &bytes);
    });
    netlink.send(&messages, 2)
}
