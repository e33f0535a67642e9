//! Host and port of a request.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use sandbar_core::DomainName;

/// Host and port of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HostPort {
    Name(DomainName, u16),
    /// In canonical form: never an IPv4-mapped IPv6 address.
    Address(SocketAddr),
}

impl HostPort {
    /// Parses `host:port`, with IPv6 in brackets. Only the standard notation of addresses is
    /// accepted, without short forms such as `127.1` and without zone ids.
    pub(crate) fn parse(text: &str, default_port: Option<u16>) -> Option<Self> {
        let is_bracketed = text.starts_with('[');
        let (host, rest) = if is_bracketed {
            text[1..].split_once(']')?
        } else {
            text.split_at(text.find(':').unwrap_or(text.len()))
        };
        let port = match rest.strip_prefix(':') {
            Some(digits) => parse_port(digits)?,
            None if rest.is_empty() => default_port?,
            None => return None,
        };
        if is_bracketed {
            let address = IpAddr::V6(host.parse::<Ipv6Addr>().ok()?).to_canonical();
            return Some(Self::Address(SocketAddr::new(address, port)));
        }
        match host.parse::<Ipv4Addr>() {
            Ok(address) => Some(Self::Address(SocketAddr::new(address.into(), port))),
            Err(_) => host.parse().ok().map(|name| Self::Name(name, port)),
        }
    }

    pub(crate) const fn port(&self) -> u16 {
        match self {
            Self::Name(_, port) => *port,
            Self::Address(address) => address.port(),
        }
    }
}

fn parse_port(digits: &str) -> Option<u16> {
    let is_plain =
        (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_plain && *port > 0)
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_round_trip() {
        for text in [
            "example.com:443",
            "203.0.113.7:80",
            "[2001:db8::1]:8443",
            "_x.example:1",
        ] {
            assert_eq!(HostPort::parse(text, None).unwrap().to_string(), text);
        }
        assert_eq!(
            HostPort::parse("Example.COM.", Some(80))
                .unwrap()
                .to_string(),
            "example.com:80"
        );
        assert_eq!(
            HostPort::parse("[::1]", Some(80)).unwrap().to_string(),
            "[::1]:80"
        );
        assert_eq!(HostPort::parse("example.com", None), None);
    }

    #[test]
    fn ipv4_mapped_address_becomes_ipv4() {
        assert_eq!(
            HostPort::parse("[::ffff:10.0.0.1]:80", None),
            HostPort::parse("10.0.0.1:80", None)
        );
    }

    #[test]
    fn ambiguous_host_and_port_is_refused() {
        for bad in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:+80",
            "a: 80",
            "a:80:90",
            "a:000080",
            "user@a:80",
            "user:word@a:80",
            "a/:80",
            "127.1:80",
            "2130706433:80",
            "0x7f.1:80",
            "010.0.0.1:80",
            "1.2.3.4.5:80",
            "::1:80",
            "[::1:80",
            "[::1]80",
            "[fe80::1%eth0]:80",
            "[10.0.0.1]:80",
            "[a]:80",
            "a b:80",
            "ü.example:80",
            "a\0.example:80",
        ] {
            assert_eq!(HostPort::parse(bad, Some(80)), None, "{bad:?}");
        }
    }
}
