//! Ports that a host opened. They are identified by their socket: the port number may be reused by
//! another process.

use std::{collections::BTreeSet, fs, net::SocketAddrV4};

use sandbar_testing::eventually;

/// Listening socket by its inode.
pub(super) type ListeningSocket = u64;

/// State `TCP_LISTEN` in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Returns the listening sockets of this machine with their addresses.
fn listening() -> Vec<(String, ListeningSocket)> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[3] == LISTEN)
        .map(|row| (row[1].to_owned(), row[9].parse().unwrap()))
        .collect()
}

/// Returns the socket of an address; `None` if its host is dead already.
pub(super) fn listening_socket(address: &str) -> Option<ListeningSocket> {
    let address: SocketAddrV4 = address.parse().unwrap();
    let written = format!(
        "{:08X}:{:04X}",
        u32::from_ne_bytes(address.ip().octets()),
        address.port()
    );
    listening()
        .into_iter()
        .find(|(known, _)| *known == written)
        .map(|(_, socket)| socket)
}

/// Checks that the sockets of a dead host are closed, even if a process inherited them.
pub(super) fn assert_closed(sockets: &BTreeSet<ListeningSocket>) {
    eventually("ports of the old host are closed", || {
        listening()
            .iter()
            .all(|(_, socket)| !sockets.contains(socket))
    });
}
