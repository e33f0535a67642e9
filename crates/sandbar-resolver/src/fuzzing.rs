//! Fuzz entry points for the parsers of this crate. Each takes any bytes and panics if an invariant
//! is broken.

use crate::config::{parse_hosts, parse_resolv_conf};

/// Parses a hosts file.
pub fn hosts_file(bytes: &[u8]) {
    parse_hosts(&String::from_utf8_lossy(bytes));
}

/// Parses a `resolv.conf`.
pub fn resolver_file(bytes: &[u8]) {
    let conf = parse_resolv_conf(&String::from_utf8_lossy(bytes));
    assert!(
        !conf.servers.is_empty() && conf.attempts > 0,
        "no server is queried: {conf:?}"
    );
}
