//! The interfaces of a session.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use crate::netlink::{Messages, Netlink};

/// The kernel makes it first in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// What a link is called at the gate and at the session.
const GATE_END: (&str, u32) = ("gate0", 2);
const SESSION_END: (&str, u32) = ("eth0", 2);

const LINK_INFO_KIND: u16 = 1;
const LINK_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

/// Has the loopback of the calling thread's namespace work.
pub fn raise_loopback() -> io::Result<()> {
    raise(LOOPBACK)
}

pub(crate) fn raise(link: u32) -> io::Result<()> {
    let mut messages = Messages::default();
    messages.add(libc::RTM_NEWLINK, libc::NLM_F_ACK, &header(link, libc::IFF_UP.cast_unsigned()), |_| {});
    Netlink::open(libc::NETLINK_ROUTE)?.send(&messages, 1)
}

/// Makes a link between the calling thread's namespace, where the gate is, and the one of a session, both of which have
/// nothing but a loopback. Returns the numbers of its ends.
pub(crate) fn link_with(session: BorrowedFd<'_>) -> io::Result<[u32; 2]> {
    let mut messages = Messages::default();
    let create = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    messages.add(libc::RTM_NEWLINK, create, &header(GATE_END.1, 0), |link| {
        link.add_text(libc::IFLA_IFNAME, GATE_END.0);
        link.nest(libc::IFLA_LINKINFO, |info| {
            info.add(LINK_INFO_KIND, b"veth");
            info.nest(LINK_INFO_DATA, |data| {
                data.nest_after(VETH_INFO_PEER, &header(SESSION_END.1, 0), |peer| {
                    peer.add_text(libc::IFLA_IFNAME, SESSION_END.0);
                    peer.add(libc::IFLA_NET_NS_FD, &session.as_raw_fd().to_ne_bytes());
                });
            });
        });
    });
    Netlink::open(libc::NETLINK_ROUTE)?.send(&messages, 1)?;
    Ok([GATE_END.1, SESSION_END.1])
}

/// `struct ifinfomsg`: which link, and which of its flags are to be set.
fn header(link: u32, flags: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&link.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&flags.to_ne_bytes());
    header
}
