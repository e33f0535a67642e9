//! The only interface of a session.

use std::io;

use crate::netlink::{Messages, Netlink};

/// The kernel makes it first in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// Has the loopback of the calling thread's namespace work.
pub fn raise_loopback() -> io::Result<()> {
    let mut messages = Messages::default();
    let up = libc::IFF_UP.cast_unsigned().to_ne_bytes();
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&LOOPBACK.to_ne_bytes());
    header[8..12].copy_from_slice(&up);
    header[12..16].copy_from_slice(&up);
    messages.add(libc::RTM_NEWLINK, libc::NLM_F_ACK, &header, |_| {});
    Netlink::open(libc::NETLINK_ROUTE)?.send(&messages, 1)
}
