//! Ports that a host opened. Whether one is closed is asked of its socket: the number of the port may soon be somebody
//! else's.

use std::{collections::BTreeSet, fs, net::SocketAddrV4};

use sandbar_testing::eventually;

/// A socket that accepts connections, by the number the kernel gave it.
pub(super) type ListeningSocket = u64;

/// State of a socket that accepts connections.
const LISTEN: &str = "0A";

/// Sockets of this machine that accept connections, with their addresses.
fn listening() -> Vec<(String, ListeningSocket)> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[3] == LISTEN).map(|row| (row[1].to_owned(), row[9].parse().unwrap())).collect()
}

/// The socket behind an address that was handed out; `None` when its host is dead already.
pub(super) fn listening_socket(address: &str) -> Option<ListeningSocket> {
    let address: SocketAddrV4 = address.parse().unwrap();
    let written = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    listening().into_iter().find(|(known, _)| *known == written).map(|(_, socket)| socket)
}

/// Ports of a host that is dead accept nothing, whoever may have inherited them.
pub(super) fn assert_closed(sockets: &BTreeSet<ListeningSocket>) {
    eventually("ports of the old host are closed", || listening().iter().all(|(_, socket)| !sockets.contains(socket)));
}
