//! Entries of allow and deny lists.

use std::{fmt, net::IpAddr, ops::RangeInclusive, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{AddressRange, DomainName, DomainPattern};
use crate::{Error, Result};

/// Network destination: `[tcp://|udp://]host[:port[-port]]`, where the host is a name, `*.name`, an
/// address or a range. IPv6 with a port needs brackets: `[2001:db8::/32]:443`. The default is TCP.
/// UDP needs a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Destination {
    pub transport: Transport,
    pub target: Target,
    /// Every port when `None`.
    pub ports: Option<PortRange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    Tcp,
    Udp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    Domain(DomainPattern),
    Addresses(AddressRange),
}

/// Inclusive range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    pub const fn one(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    pub const fn ports(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }
}

impl Destination {
    fn has_port(&self, transport: Transport, port: u16) -> bool {
        self.transport == transport && self.ports.is_none_or(|ports| ports.contains(port))
    }

    /// Whether it matches this host at this port.
    pub fn matches_name(&self, transport: Transport, name: &DomainName, port: u16) -> bool {
        matches!(&self.target, Target::Domain(pattern) if pattern.matches(name))
            && self.has_port(transport, port)
    }

    /// Whether it matches this address at this port.
    pub fn matches_address(&self, transport: Transport, address: IpAddr, port: u16) -> bool {
        matches!(&self.target, Target::Addresses(range) if range.contains(address))
            && self.has_port(transport, port)
    }
}

impl FromStr for Destination {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Err(Error::invalid("network", format!("destination `{}` {why}", text.escape_debug())).with_hint(
                "write `example.com`, `*.example.com:443`, `10.0.0.0/8`, `[2001:db8::1]:443` or `udp://192.0.2.1:123`",
            ))
        };
        let (transport, rest) = match text.split_once("://") {
            None => (Transport::Tcp, text),
            Some(("tcp", rest)) => (Transport::Tcp, rest),
            Some(("udp", rest)) => (Transport::Udp, rest),
            Some(_) => return refuse("has a scheme that is neither `tcp` nor `udp`"),
        };
        let (host, ports) = if let Some(bracketed) = rest.strip_prefix('[') {
            match bracketed.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, tail)) => match tail.strip_prefix(':') {
                    Some(ports) => (host, Some(ports)),
                    None => return refuse("has no port after the bracket"),
                },
                None => return refuse("has a bracket that is not closed"),
            }
        } else if rest.matches(':').count() > 1 {
            (rest, None)
        } else {
            match rest.split_once(':') {
                Some((host, ports)) => (host, Some(ports)),
                None => (rest, None),
            }
        };
        let ports = match ports {
            None => None,
            Some(ports) => match parse_ports(ports) {
                Some(ports) => Some(ports),
                None => {
                    return refuse("has a port outside 1 to 65535, or a reversed port range");
                }
            },
        };
        if transport == Transport::Udp && ports.is_none() {
            return refuse("opens UDP without a port");
        }
        let target = match host.parse::<AddressRange>() {
            Ok(range) => Target::Addresses(range),
            Err(error) if host.contains(['/', ':']) => return Err(error),
            Err(_) => Target::Domain(host.parse()?),
        };
        Ok(Self {
            transport,
            target,
            ports,
        })
    }
}

fn parse_ports(text: &str) -> Option<PortRange> {
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|port| plain && *port > 0)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(PortRange { first, last })
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transport == Transport::Udp {
            f.write_str("udp://")?;
        }
        let host = match &self.target {
            Target::Domain(pattern) => pattern.to_string(),
            Target::Addresses(range) => range.to_string(),
        };
        match self.ports {
            None => f.write_str(&host),
            Some(ports) => {
                if host.contains(':') {
                    write!(f, "[{host}]:{}", ports.first)
                } else {
                    write!(f, "{host}:{}", ports.first)
                }?;
                if ports.last == ports.first {
                    Ok(())
                } else {
                    write!(f, "-{}", ports.last)
                }
            }
        }
    }
}

super::policy::as_text!(Destination);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destination_round_trips() {
        for text in [
            "example.com",
            "*.example.com:443",
            "example.com:8000-8010",
            "10.0.0.0/8",
            "10.0.0.0/8:5432",
            "203.0.113.7:22",
            "2001:db8::1",
            "2001:db8::/32",
            "[2001:db8::/32]:443",
            "udp://192.0.2.1:123",
            "udp://ntp.example:123",
        ] {
            assert_eq!(text.parse::<Destination>().unwrap().to_string(), text);
        }
        assert_eq!(
            "tcp://[2001:db8::1]"
                .parse::<Destination>()
                .unwrap()
                .to_string(),
            "2001:db8::1"
        );
    }

    #[test]
    fn ambiguous_destination_is_refused() {
        for bad in [
            "",
            "*",
            "http://example.com",
            "example.com/path",
            "example.com:",
            "example.com:0",
            "example.com:70000",
            "example.com:90-80",
            "example.com:+80",
            "10.0.0.1/8",
            "127.1",
            "0x7f000001",
            "[::1",
            "[::1]x",
            "udp://a.example",
            "user@example.com",
            "example.com:80:90",
            "exa mple.com",
            "10.0.0.0/8/8",
        ] {
            let error = bad.parse::<Destination>().unwrap_err();
            assert_eq!(error.field(), Some("network"), "{bad}");
            assert!(error.hint().is_some(), "{bad}");
        }
    }

    #[test]
    fn destination_matches_its_ports_only() {
        let name: DomainName = "a.example.com".parse().unwrap();
        let web: Destination = "*.example.com:443".parse().unwrap();
        assert!(web.matches_name(Transport::Tcp, &name, 443));
        assert!(
            !web.matches_name(Transport::Tcp, &name, 80)
                && !web.matches_name(Transport::Udp, &name, 443)
        );
        let range: Destination = "10.0.0.0/8:1-1023".parse().unwrap();
        assert!(range.matches_address(Transport::Tcp, "10.9.9.9".parse().unwrap(), 22));
        assert!(!range.matches_address(Transport::Tcp, "10.9.9.9".parse().unwrap(), 8080));
    }
}
