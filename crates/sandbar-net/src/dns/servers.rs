//! Whom the gateway asks for names.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use super::changing_file::ChangingFile;

const PORT: u16 = 53;
const MOST_SERVERS: usize = 3;

/// Servers, in the order they are asked in.
#[derive(Debug)]
pub(super) enum Servers {
    Fixed(Arc<Vec<SocketAddr>>),
    /// Those of a file like `/etc/resolv.conf`.
    OfFile(ChangingFile<Vec<SocketAddr>>),
}

impl Servers {
    pub(super) const fn of_file(path: PathBuf) -> Self {
        Self::OfFile(ChangingFile::new(path, parse))
    }

    pub(super) fn current(&self) -> Arc<Vec<SocketAddr>> {
        match self {
            Self::Fixed(servers) => Arc::clone(servers),
            Self::OfFile(file) => file.current(),
        }
    }
}

/// The `nameserver` lines; this machine when there are none, as the C library has it.
pub(super) fn parse(text: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse::<IpAddr>().ok()).flatten()
    };
    let mut servers: Vec<SocketAddr> =
        text.lines().filter_map(address).take(MOST_SERVERS).map(|address| SocketAddr::new(address, PORT)).collect();
    if servers.is_empty() {
        servers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_of_a_file_are_its_first_three_or_this_machine() {
        let text = "# nameserver 192.0.2.9\nsearch example\nnameserver 192.0.2.1 # first\nnameserver x\n;\nnameserver 2001:db8::1\nnameservers 192.0.2.8\nnameserver\t192.0.2.2\nnameserver 192.0.2.3\n";
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"];
        assert_eq!(parse(text), expected.map(|text| text.parse::<SocketAddr>().unwrap()));
        assert_eq!(parse("search example"), ["127.0.0.1:53".parse::<SocketAddr>().unwrap()]);
    }
}
