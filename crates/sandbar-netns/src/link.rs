//! Network interfaces of a session.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use crate::netlink::{Messages, Netlink};

/// Index of the loopback interface, which is the first in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// Name and index of the veth interface on the host side and on the box side.
const HOST_SIDE: (&str, u32) = ("gate0", 2);
const BOX_SIDE: (&str, u32) = ("eth0", 2);

const LINK_INFO_KIND: u16 = 1;
const LINK_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

/// Brings up the loopback interface of the calling thread's namespace.
pub fn raise_loopback() -> io::Result<()> {
    raise(LOOPBACK)
}

pub(crate) fn raise(link: u32) -> io::Result<()> {
    let mut messages = Messages::default();
    messages.add(
        libc::RTM_NEWLINK,
        libc::NLM_F_ACK,
        &header(link, libc::IFF_UP.cast_unsigned()),
        |_| {},
    );
    Netlink::open(libc::NETLINK_ROUTE)?.send(&messages, 1)
}

/// Creates a veth pair between the calling thread's namespace (host side) and `box_side`, both of
/// which must have only a loopback interface. Returns the interface indices.
pub(crate) fn link_with(box_side: BorrowedFd<'_>) -> io::Result<[u32; 2]> {
    let mut messages = Messages::default();
    let create = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    messages.add(libc::RTM_NEWLINK, create, &header(HOST_SIDE.1, 0), |link| {
        link.add_text(libc::IFLA_IFNAME, HOST_SIDE.0);
        link.nest(libc::IFLA_LINKINFO, |info| {
            info.add(LINK_INFO_KIND, b"veth");
            info.nest(LINK_INFO_DATA, |data| {
                data.nest_after(VETH_INFO_PEER, &header(BOX_SIDE.1, 0), |peer| {
                    peer.add_text(libc::IFLA_IFNAME, BOX_SIDE.0);
                    peer.add(libc::IFLA_NET_NS_FD, &box_side.as_raw_fd().to_ne_bytes());
                });
            });
        });
    });
    Netlink::open(libc::NETLINK_ROUTE)?.send(&messages, 1)?;
    Ok([HOST_SIDE.1, BOX_SIDE.1])
}

/// Returns a `struct ifinfomsg` for an interface, with flags to set.
fn header(link: u32, flags: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&link.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&flags.to_ne_bytes());
    header
}
