//! The machine's own configuration: `/etc/resolv.conf` and `/etc/hosts`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use hickory_proto::rr::Name;
use hickory_resolver::{Hosts, config::ResolverOpts, system_conf};
use sandbar_core::DomainName;

const PORT: u16 = 53;
/// Limits of the C library.
const MAX_SERVERS: usize = 3;
const MAX_ATTEMPTS: usize = 5;
/// Time for one server and one attempt. The C library waits 5 seconds by default, which is longer
/// than callers do.
const MAX_TIMEOUT: Duration = Duration::from_secs(2);

/// Content of a `resolv.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvConf {
    /// In the order in which they are queried.
    pub(crate) servers: Vec<SocketAddr>,
    /// Domains that names without enough dots are looked up in.
    pub(crate) search: Vec<DomainName>,
    /// Names with fewer dots are looked up in the search domains first.
    pub(crate) ndots: usize,
    pub(crate) timeout: Duration,
    pub(crate) attempts: usize,
}

impl ResolvConf {
    /// Returns a configuration with these servers and the default options.
    pub(crate) fn of_servers(servers: Vec<SocketAddr>) -> Self {
        let defaults = ResolverOpts::default();
        Self {
            servers,
            search: Vec::new(),
            ndots: defaults.ndots,
            timeout: defaults.timeout.min(MAX_TIMEOUT),
            attempts: defaults.attempts,
        }
    }
}

/// Parses a `resolv.conf`. Without a server in it, the default is `127.0.0.1`, as in the C library.
pub(crate) fn parse_resolv_conf(text: &str) -> ResolvConf {
    let local = || ResolvConf::of_servers(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT)]);
    // One invalid search domain makes hickory reject the whole file; the servers are used then.
    let servers_only = || {
        text.lines()
            .filter(|line| line.starts_with("nameserver"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let parsed = system_conf::parse_resolv_conf(text)
        .or_else(|_| system_conf::parse_resolv_conf(servers_only()));
    let Ok((config, options)) = parsed else {
        return local();
    };
    let search = match (config.search(), config.domain()) {
        ([], domain) => domain.into_iter().filter_map(domain_name).collect(),
        (search, _) => search.iter().filter_map(domain_name).collect(),
    };
    let servers = config
        .name_servers()
        .iter()
        .take(MAX_SERVERS)
        .map(|server| SocketAddr::new(server.ip, PORT));
    ResolvConf {
        servers: servers.collect(),
        search,
        ndots: options.ndots,
        timeout: options.timeout.clamp(Duration::from_secs(1), MAX_TIMEOUT),
        attempts: options.attempts.clamp(1, MAX_ATTEMPTS),
    }
}

/// Parses a hosts file: `address name…` with comments. Other lines are ignored, as in the C
/// library.
pub(crate) fn parse_hosts(text: &str) -> Hosts {
    let mut hosts = Hosts::default();
    if let Err(error) = hosts.read_hosts_conf(text.as_bytes()) {
        tracing::warn!(%error, "could not read all of the hosts file");
    }
    hosts
}

fn domain_name(name: &Name) -> Option<DomainName> {
    name.to_ascii().trim_end_matches('.').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn resolv_conf_is_parsed_like_the_c_library() {
        let text = "# nameserver 192.0.2.9\nsearch example corp.example\nnameserver 192.0.2.1 # first\nnameserver x\n;\n\
            options ndots:2 timeout:1 attempts:3\nnameserver 2001:db8::1\nnameservers 192.0.2.8\nnameserver\t192.0.2.2\n\
            nameserver 192.0.2.3\n";
        let conf = parse_resolv_conf(text);
        assert_eq!(
            conf.servers,
            addresses(&["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"])
        );
        assert_eq!(
            conf.search,
            ["example", "corp.example"].map(|text| text.parse().unwrap())
        );
        assert_eq!(
            (conf.ndots, conf.timeout, conf.attempts),
            (2, Duration::from_secs(1), 3)
        );
    }

    #[test]
    fn resolv_conf_without_servers_means_this_machine() {
        for text in ["", "options ndots:2", "nonsense"] {
            assert_eq!(
                parse_resolv_conf(text).servers,
                addresses(&["127.0.0.1:53"]),
                "{text:?}"
            );
        }
    }

    #[test]
    fn resolv_conf_with_a_bad_search_keeps_its_servers() {
        let long = "x".repeat(64);
        let conf = parse_resolv_conf(&format!("search {long}.example\nnameserver 192.0.2.1\n"));
        assert_eq!(conf.servers, addresses(&["192.0.2.1:53"]));
    }

    #[test]
    fn resolv_conf_options_are_limited() {
        let conf = parse_resolv_conf("nameserver 192.0.2.1\noptions timeout:30 attempts:99\n");
        assert_eq!((conf.timeout, conf.attempts), (MAX_TIMEOUT, MAX_ATTEMPTS));
        let conf = parse_resolv_conf("nameserver 192.0.2.1\noptions timeout:0 attempts:0\n");
        assert_eq!((conf.timeout, conf.attempts), (Duration::from_secs(1), 1));
    }
}
