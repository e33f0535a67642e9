//! Ways into the readers of this crate for the fuzzer. Each takes any bytes, and panics where a promise is broken.

use crate::config::{parse_hosts, parse_resolv_conf};

/// A file like `/etc/hosts`.
pub fn hosts_file(bytes: &[u8]) {
    parse_hosts(&String::from_utf8_lossy(bytes));
}

/// A file like `/etc/resolv.conf`.
pub fn resolver_file(bytes: &[u8]) {
    let conf = parse_resolv_conf(&String::from_utf8_lossy(bytes));
    assert!(!conf.servers.is_empty() && conf.attempts > 0, "no server is ever asked: {conf:?}");
}
