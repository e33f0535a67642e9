//! What a session may reach.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{AddressRange, Destination, DomainName, HeaderRule, Target, Transport};
use crate::{ByteCount, Error, Result};

/// What a session may reach, and who may reach it. The default is a closed one.
///
/// What is denied is denied, whatever is allowed. Private and link-local ranges, the address of the cloud's metadata and the
/// host's own addresses are refused unless `allow_list` names them as addresses; `private_ranges` lets names lead there.
#[expect(clippy::struct_excessive_bools, reason = "four answers to four questions")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkPolicy {
    /// Ports of the session may be reached by host name without a token.
    pub allow_public_ingress: bool,
    /// Everything that is public and not denied may be reached. Otherwise only what `allow_list` says.
    pub allow_outbound: bool,
    pub allow_list: Vec<Destination>,
    pub deny_list: Vec<Destination>,
    /// Private ranges names may lead to, without being open themselves.
    pub private_ranges: Vec<AddressRange>,
    /// A runtime that cannot keep this policy is refused. Without it, the session is made and says that nothing is kept.
    pub required: bool,
    /// Look into TLS to named hosts, so that every request is held to the name the connection was opened for.
    pub inspect_tls: bool,
    pub secrets: Vec<HeaderRule>,
    pub limits: NetworkLimits,
}

/// Limits of a session's traffic. A field that is `None` is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkLimits {
    /// Both directions together, sustained; a second's worth may come at once.
    pub bytes_per_second: Option<ByteCount>,
    /// At once.
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
    /// Nothing but the session's own loopback.
    pub fn none() -> Self {
        Self::default()
    }

    /// Everything public.
    pub fn full() -> Self {
        Self { allow_outbound: true, ..Self::default() }
    }

    /// These destinations and nothing else.
    pub fn allowing(destinations: impl IntoIterator<Item = Destination>) -> Self {
        Self { allow_list: destinations.into_iter().collect(), ..Self::default() }
    }

    /// Everything public but these destinations.
    pub fn denying(destinations: impl IntoIterator<Item = Destination>) -> Self {
        Self { deny_list: destinations.into_iter().collect(), ..Self::full() }
    }

    /// Whether nothing at all can be reached.
    pub fn is_closed(&self) -> bool {
        !self.allow_outbound && self.allow_list.is_empty()
    }

    /// Whether it asks for nothing but everything: no entry, no secret, no limit that somebody would have to keep.
    pub fn is_unrestricted(&self) -> bool {
        self.allow_outbound
            && self.deny_list.is_empty()
            && !self.intercepts()
            && self.limits == NetworkLimits::default()
    }

    /// Whether TLS of the session is looked into, so that it must trust the host's certificates.
    pub fn intercepts(&self) -> bool {
        self.inspect_tls || !self.secrets.is_empty()
    }

    /// The headers that requests to this host get.
    pub fn headers_for(&self, name: &DomainName, port: u16) -> impl Iterator<Item = &HeaderRule> {
        let name = name.clone();
        self.secrets.iter().filter(move |rule| rule.host.matches(&name) && rule.port.is_none_or(|own| own == port))
    }

    /// UDP ports that the policy opens somewhere.
    pub fn udp_ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.udp_ranges().flat_map(super::PortRange::ports).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    fn udp_ranges(&self) -> impl Iterator<Item = super::PortRange> {
        let opened = self.allow_list.iter().filter(|destination| destination.transport == Transport::Udp);
        opened.filter_map(|destination| destination.ports)
    }

    /// Checks what the types alone cannot.
    pub fn validate(&self) -> Result<()> {
        const MOST_ENTRIES: usize = 1000;
        const MOST_UDP_PORTS: usize = 64;
        for (field, count) in [
            ("network.allow_list", self.allow_list.len()),
            ("network.deny_list", self.deny_list.len()),
            ("network.private_ranges", self.private_ranges.len()),
            ("network.secrets", self.secrets.len()),
        ] {
            if count > MOST_ENTRIES {
                return Err(Error::invalid(field, format!("`{field}` has {count} entries"))
                    .with_hint(format!("use at most {MOST_ENTRIES}; `*.example.com` and ranges say much in one")));
            }
        }
        // One range that is too wide is enough: a thousand of them would be millions of ports to count.
        let is_wide = |range: super::PortRange| range.ports().len() > MOST_UDP_PORTS;
        if self.udp_ranges().any(is_wide) || self.udp_ports().len() > MOST_UDP_PORTS {
            return Err(Error::invalid("network.allow_list", "the UDP ports are too many")
                .with_hint(format!("open at most {MOST_UDP_PORTS}")));
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
                    format!("`{}` gets a secret and cannot be reached", rule.host),
                )
                .with_hint("add the host to `allow_list`"));
            }
        }
        let zero = [
            ("network.limits.bytes_per_second", self.limits.bytes_per_second == Some(ByteCount(0))),
            ("network.limits.connections", self.limits.connections == Some(0)),
            ("network.limits.new_connections_per_second", self.limits.new_connections_per_second == Some(0)),
        ];
        match zero.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((field, _)) => Err(Error::invalid(field, format!("`{field}` is zero"))
                .with_hint("leave it out for no limit, or close the network")),
            None => Ok(()),
        }
    }
}

/// The short forms people type: `none`, `full`, `allow=a,b`, `deny=a,b`.
impl FromStr for NetworkPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let list = |text: &str| -> Result<Vec<Destination>> {
            if text.is_empty() {
                return Err(Error::invalid("network", "the list of destinations is empty")
                    .with_hint("write `allow=example.com,*.example.org:443`, or `none`"));
            }
            text.split(',').map(|entry| entry.trim().parse()).collect()
        };
        match text.split_once('=') {
            None if text == "none" => Ok(Self::none()),
            None if text == "full" => Ok(Self::full()),
            Some(("allow", rest)) => list(rest).map(Self::allowing),
            Some(("deny", rest)) => list(rest).map(Self::denying),
            _ => Err(Error::invalid("network", format!("network `{}` is unknown", text.escape_debug()))
                .with_hint("use `none`, `full`, `allow=DESTINATION,…` or `deny=DESTINATION,…`")),
        }
    }
}

/// One line for people.
impl fmt::Display for NetworkPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |entries: &[Destination]| entries.iter().map(Destination::to_string).collect::<Vec<_>>().join(",");
        match (self.allow_outbound, self.allow_list.is_empty(), self.deny_list.is_empty()) {
            (false, true, _) => f.write_str("none"),
            (true, _, true) => f.write_str("full"),
            (true, _, false) => write!(f, "deny={}", list(&self.deny_list)),
            (false, false, true) => write!(f, "allow={}", list(&self.allow_list)),
            (false, false, false) => write!(f, "allow={} but not {}", list(&self.allow_list), list(&self.deny_list)),
        }?;
        match self.secrets.len() {
            0 => Ok(()),
            1 => f.write_str(", 1 secret"),
            count => write!(f, ", {count} secrets"),
        }
    }
}

/// Conversions that let serde read and write a type as its text.
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
    fn short_forms_say_what_they_mean() {
        for text in ["none", "full", "allow=example.com,*.example.org:443", "deny=10.0.0.0/8,evil.example"] {
            let policy: NetworkPolicy = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
            policy.validate().unwrap();
            let json = serde_json::to_string(&policy).unwrap();
            assert_eq!(serde_json::from_str::<NetworkPolicy>(&json).unwrap(), policy);
        }
        assert!(NetworkPolicy::none().is_closed() && !NetworkPolicy::full().is_closed());
        for bad in ["", "some", "allow=", "allow", "full=x", "allow=a,,b", "deny=http://x"] {
            assert_eq!(bad.parse::<NetworkPolicy>().unwrap_err().field(), Some("network"), "{bad}");
        }
    }

    #[test]
    fn a_secret_for_a_host_that_cannot_be_reached_is_refused() {
        let json = r#"{"secrets": [{"host": "api.example", "header": "Authorization", "secret": "key"}]}"#;
        let mut policy: NetworkPolicy = serde_json::from_str(json).unwrap();
        assert_eq!(policy.validate().unwrap_err().field(), Some("network.secrets"));
        policy.allow_list = vec!["*.example:443".parse().unwrap()];
        policy.validate().unwrap();
        assert!(policy.intercepts());
        let name = "api.example".parse().unwrap();
        assert_eq!(policy.headers_for(&name, 443).count(), 1);
        assert!(serde_json::from_str::<NetworkPolicy>(r#"{"alow_list": []}"#).is_err());
    }

    #[test]
    fn ports_are_not_counted_one_by_one_where_a_range_is_too_wide() {
        let mut policy =
            NetworkPolicy { allow_list: vec!["udp://a.example:1-64".parse().unwrap()], ..NetworkPolicy::none() };
        policy.validate().unwrap();
        policy.allow_list = vec!["udp://a.example:1-65535".parse().unwrap(); 1000];
        assert_eq!(policy.validate().unwrap_err().field(), Some("network.allow_list"));
        let narrow = (0..65).map(|port| format!("udp://a.example:{}", 100 + port).parse().unwrap());
        policy.allow_list = narrow.collect();
        assert_eq!(policy.validate().unwrap_err().field(), Some("network.allow_list"));
    }

    #[test]
    fn ranges_beyond_number_are_refused() {
        let policy =
            NetworkPolicy { private_ranges: vec!["10.0.0.0/8".parse().unwrap(); 1001], ..NetworkPolicy::none() };
        assert_eq!(policy.validate().unwrap_err().field(), Some("network.private_ranges"));
    }

    #[test]
    fn limits_under_which_nothing_passes_are_refused() {
        let mut policy = NetworkPolicy::full();
        policy.limits.connections = Some(0);
        assert_eq!(policy.validate().unwrap_err().field(), Some("network.limits.connections"));
    }
}
