//! Network policy of a session.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{AddressRange, Destination, DomainName, HeaderRule, Target, Transport};
use crate::{ByteCount, Error, Result};

/// Network policy of a session, for egress and ingress. The default is closed.
///
/// `deny_list` overrides everything else. Private and link-local ranges, the metadata service of a
/// cloud and the addresses of the host are refused unless `allow_list` has them as addresses.
/// `private_ranges` permits names to resolve to private addresses.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of the wire API"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkPolicy {
    /// Ports of the session may be reached by host name without a token.
    pub allow_public_ingress: bool,
    /// All public addresses are allowed unless denied. Otherwise only `allow_list` is.
    pub allow_outbound: bool,
    pub allow_list: Vec<Destination>,
    pub deny_list: Vec<Destination>,
    /// Private ranges that names may resolve to. Their addresses are not open by themselves.
    pub private_ranges: Vec<AddressRange>,
    /// Refuse a runtime that cannot enforce this policy. Otherwise the session is created and
    /// reports that the policy is not enforced.
    pub required: bool,
    /// Inspect TLS to named hosts, so that every request must be for the host of its connection
    /// (no domain fronting).
    pub inspect_tls: bool,
    pub secrets: Vec<HeaderRule>,
    pub limits: NetworkLimits,
}

/// Traffic limits of a session. `None` is unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkLimits {
    /// Sustained rate of both directions together, with a burst of one second.
    pub bytes_per_second: Option<ByteCount>,
    /// Open connections.
    pub connections: Option<u32>,
    pub new_connections_per_second: Option<u32>,
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self {
            allow_public_ingress: false,
            allow_outbound: false,
            allow_list: Vec::new(),
            deny_list: Vec::new(),
            private_ranges: Vec::new(),
            required: true,
            inspect_tls: false,
            secrets: Vec::new(),
            limits: NetworkLimits::default(),
        }
    }
}

impl NetworkPolicy {
    /// Returns a policy that allows only the session's own loopback.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns a policy that allows all public addresses.
    pub fn full() -> Self {
        Self {
            allow_outbound: true,
            ..Self::default()
        }
    }

    /// Returns a policy that allows only these destinations.
    pub fn allowing(destinations: impl IntoIterator<Item = Destination>) -> Self {
        Self {
            allow_list: destinations.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns a policy that allows all public addresses except these destinations.
    pub fn denying(destinations: impl IntoIterator<Item = Destination>) -> Self {
        Self {
            deny_list: destinations.into_iter().collect(),
            ..Self::full()
        }
    }

    /// Whether it allows nothing.
    pub fn is_closed(&self) -> bool {
        !self.allow_outbound && self.allow_list.is_empty()
    }

    /// Whether it allows everything and needs no enforcement: no entry, no secret, no limit.
    pub fn is_unrestricted(&self) -> bool {
        self.allow_outbound
            && self.deny_list.is_empty()
            && !self.intercepts()
            && self.limits == NetworkLimits::default()
    }

    /// Whether TLS is inspected, so that the box must trust a session CA.
    pub fn intercepts(&self) -> bool {
        self.inspect_tls || !self.secrets.is_empty()
    }

    /// Iterates over the headers to add to requests to this host.
    pub fn headers_for(&self, name: &DomainName, port: u16) -> impl Iterator<Item = &HeaderRule> {
        let name = name.clone();
        self.secrets
            .iter()
            .filter(move |rule| rule.host.matches(&name) && rule.port.is_none_or(|own| own == port))
    }

    /// Returns the UDP ports that the policy opens for any host.
    pub fn udp_ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self
            .udp_ranges()
            .flat_map(super::PortRange::ports)
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    fn udp_ranges(&self) -> impl Iterator<Item = super::PortRange> {
        let opened = self
            .allow_list
            .iter()
            .filter(|destination| destination.transport == Transport::Udp);
        opened.filter_map(|destination| destination.ports)
    }

    /// Checks sizes, limits and secrets.
    pub fn validate(&self) -> Result<()> {
        const MAX_ENTRIES: usize = 1000;
        const MAX_UDP_PORTS: usize = 64;
        for (field, count) in [
            ("network.allow_list", self.allow_list.len()),
            ("network.deny_list", self.deny_list.len()),
            ("network.private_ranges", self.private_ranges.len()),
            ("network.secrets", self.secrets.len()),
        ] {
            if count > MAX_ENTRIES {
                return Err(
                    Error::invalid(field, format!("`{field}` has {count} entries")).with_hint(
                        format!(
                            "use at most {MAX_ENTRIES}; `*.example.com` and ranges cover many hosts"
                        ),
                    ),
                );
            }
        }
        // Stops at the first range that is too wide: counting 1000 of them would take millions of
        // steps.
        let is_wide = |range: super::PortRange| range.ports().len() > MAX_UDP_PORTS;
        if self.udp_ranges().any(is_wide) || self.udp_ports().len() > MAX_UDP_PORTS {
            return Err(Error::invalid("network.allow_list", "too many UDP ports")
                .with_hint(format!("open at most {MAX_UDP_PORTS}")));
        }
        for rule in &self.secrets {
            rule.validate()?;
            let reachable = self.allow_outbound
                || self.allow_list.iter().any(|destination| match &destination.target {
                    Target::Domain(pattern) => {
                        pattern == &rule.host
                            || matches!(&rule.host, super::DomainPattern::Exact(name) if pattern.matches(name))
                    }
                    Target::Addresses(_) => false,
                });
            if !reachable {
                return Err(Error::invalid(
                    "network.secrets",
                    format!("host `{}` has a secret but is not allowed", rule.host),
                )
                .with_hint("add the host to `allow_list`"));
            }
        }
        let zero = [
            (
                "network.limits.bytes_per_second",
                self.limits.bytes_per_second == Some(ByteCount(0)),
            ),
            (
                "network.limits.connections",
                self.limits.connections == Some(0),
            ),
            (
                "network.limits.new_connections_per_second",
                self.limits.new_connections_per_second == Some(0),
            ),
        ];
        match zero.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((field, _)) => Err(Error::invalid(field, format!("`{field}` is zero"))
                .with_hint("leave it out for no limit, or close the network")),
            None => Ok(()),
        }
    }
}

/// Parses the short forms `none`, `full`, `allow=a,b` and `deny=a,b`.
impl FromStr for NetworkPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let list = |text: &str| -> Result<Vec<Destination>> {
            if text.is_empty() {
                return Err(
                    Error::invalid("network", "the list of destinations is empty")
                        .with_hint("write `allow=example.com,*.example.org:443`, or `none`"),
                );
            }
            text.split(',').map(|entry| entry.trim().parse()).collect()
        };
        match text.split_once('=') {
            None if text == "none" => Ok(Self::none()),
            None if text == "full" => Ok(Self::full()),
            Some(("allow", rest)) => list(rest).map(Self::allowing),
            Some(("deny", rest)) => list(rest).map(Self::denying),
            _ => Err(Error::invalid(
                "network",
                format!("network `{}` is unknown", text.escape_debug()),
            )
            .with_hint("use `none`, `full`, `allow=DESTINATION,…` or `deny=DESTINATION,…`")),
        }
    }
}

/// Writes one line for users.
impl fmt::Display for NetworkPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |entries: &[Destination]| {
            entries
                .iter()
                .map(Destination::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        match (
            self.allow_outbound,
            self.allow_list.is_empty(),
            self.deny_list.is_empty(),
        ) {
            (false, true, _) => f.write_str("none"),
            (true, _, true) => f.write_str("full"),
            (true, _, false) => write!(f, "deny={}", list(&self.deny_list)),
            (false, false, true) => write!(f, "allow={}", list(&self.allow_list)),
            (false, false, false) => write!(
                f,
                "allow={} but not {}",
                list(&self.allow_list),
                list(&self.deny_list)
            ),
        }?;
        match self.secrets.len() {
            0 => Ok(()),
            1 => f.write_str(", 1 secret"),
            count => write!(f, ", {count} secrets"),
        }
    }
}

/// Conversions for serde to read and write a type as text.
macro_rules! as_text {
    ($($name:ident),*) => {
        $(
            impl TryFrom<String> for $name {
                type Error = crate::Error;
                fn try_from(text: String) -> crate::Result<Self> {
                    text.parse()
                }
            }

            impl From<$name> for String {
                fn from(value: $name) -> String {
                    value.to_string()
                }
            }
        )*
    };
}
pub(super) use as_text;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_parse_and_print() {
        for text in [
            "none",
            "full",
            "allow=example.com,*.example.org:443",
            "deny=10.0.0.0/8,evil.example",
        ] {
            let policy: NetworkPolicy = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
            policy.validate().unwrap();
            let json = serde_json::to_string(&policy).unwrap();
            assert_eq!(
                serde_json::from_str::<NetworkPolicy>(&json).unwrap(),
                policy
            );
        }
        assert!(NetworkPolicy::none().is_closed() && !NetworkPolicy::full().is_closed());
        for bad in [
            "",
            "some",
            "allow=",
            "allow",
            "full=x",
            "allow=a,,b",
            "deny=http://x",
        ] {
            assert_eq!(
                bad.parse::<NetworkPolicy>().unwrap_err().field(),
                Some("network"),
                "{bad}"
            );
        }
    }

    #[test]
    fn secret_for_a_denied_host_is_refused() {
        let json =
            r#"{"secrets": [{"host": "api.example", "header": "Authorization", "secret": "key"}]}"#;
        let mut policy: NetworkPolicy = serde_json::from_str(json).unwrap();
        assert_eq!(
            policy.validate().unwrap_err().field(),
            Some("network.secrets")
        );
        policy.allow_list = vec!["*.example:443".parse().unwrap()];
        policy.validate().unwrap();
        assert!(policy.intercepts());
        let name = "api.example".parse().unwrap();
        assert_eq!(policy.headers_for(&name, 443).count(), 1);
        assert!(serde_json::from_str::<NetworkPolicy>(r#"{"alow_list": []}"#).is_err());
    }

    #[test]
    fn wide_udp_ranges_are_refused_early() {
        let mut policy = NetworkPolicy {
            allow_list: vec!["udp://a.example:1-64".parse().unwrap()],
            ..NetworkPolicy::none()
        };
        policy.validate().unwrap();
        policy.allow_list = vec!["udp://a.example:1-65535".parse().unwrap(); 1000];
        assert_eq!(
            policy.validate().unwrap_err().field(),
            Some("network.allow_list")
        );
        let narrow = (0..65).map(|port| format!("udp://a.example:{}", 100 + port).parse().unwrap());
        policy.allow_list = narrow.collect();
        assert_eq!(
            policy.validate().unwrap_err().field(),
            Some("network.allow_list")
        );
    }

    #[test]
    fn too_many_entries_are_refused() {
        let policy = NetworkPolicy {
            private_ranges: vec!["10.0.0.0/8".parse().unwrap(); 1001],
            ..NetworkPolicy::none()
        };
        assert_eq!(
            policy.validate().unwrap_err().field(),
            Some("network.private_ranges")
        );
    }

    #[test]
    fn traffic_limits_of_zero_are_refused() {
        let mut policy = NetworkPolicy::full();
        policy.limits.connections = Some(0);
        assert_eq!(
            policy.validate().unwrap_err().field(),
            Some("network.limits.connections")
        );
    }
}
