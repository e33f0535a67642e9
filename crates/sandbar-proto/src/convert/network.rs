//! Network policy, network status and secret messages.

use std::str::FromStr;

use sandbar_core::{
    ByteCount, Capability, Error, HeaderRule, NetworkLimits, NetworkPolicy, NetworkStatus,
    NetworkTraffic, Result, SecretInfo, SecretName, SecretValue, SessionId,
};

use super::scalar::{missing, pack_time, unpack_port, unpack_time};
use crate::v1;

impl From<NetworkPolicy> for v1::NetworkPolicy {
    fn from(policy: NetworkPolicy) -> Self {
        Self {
            allow_public_ingress: policy.allow_public_ingress,
            allow_outbound: policy.allow_outbound,
            allow_list: texts(&policy.allow_list),
            deny_list: texts(&policy.deny_list),
            private_ranges: texts(&policy.private_ranges),
            required: Some(policy.required),
            inspect_tls: policy.inspect_tls,
            secrets: policy.secrets.into_iter().map(Into::into).collect(),
            limits: v1::NetworkLimits::from(policy.limits).into(),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::NetworkPolicy> for NetworkPolicy {
    type Error = Error;

    fn try_from(wire: v1::NetworkPolicy) -> Result<Self> {
        let policy = Self {
            allow_public_ingress: wire.allow_public_ingress,
            allow_outbound: wire.allow_outbound,
            allow_list: parsed("network.allow_list", &wire.allow_list)?,
            deny_list: parsed("network.deny_list", &wire.deny_list)?,
            private_ranges: parsed("network.private_ranges", &wire.private_ranges)?,
            required: wire.required.unwrap_or(true),
            inspect_tls: wire.inspect_tls,
            secrets: wire
                .secrets
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_>>()?,
            limits: wire
                .limits
                .into_option()
                .map(Into::into)
                .unwrap_or_default(),
        };
        policy.validate()?;
        Ok(policy)
    }
}

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn parsed<T: FromStr<Err = Error>>(field: &'static str, texts: &[String]) -> Result<Vec<T>> {
    texts
        .iter()
        .map(|text| text.parse().map_err(|error: Error| error.with_field(field)))
        .collect()
}

impl From<HeaderRule> for v1::HeaderRule {
    fn from(rule: HeaderRule) -> Self {
        Self {
            host: rule.host.to_string(),
            port: rule.port.map(u32::from),
            header: rule.header,
            secret: rule.secret.into(),
            format: rule.format,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::HeaderRule> for HeaderRule {
    type Error = Error;

    fn try_from(wire: v1::HeaderRule) -> Result<Self> {
        Ok(Self {
            host: wire
                .host
                .parse()
                .map_err(|error: Error| error.with_field("network.secrets.host"))?,
            port: unpack_port("network.secrets.port", wire.port)?,
            header: wire.header,
            secret: SecretName::new(wire.secret)
                .map_err(|error| error.with_field("network.secrets.secret"))?,
            format: wire.format,
        })
    }
}

impl From<NetworkLimits> for v1::NetworkLimits {
    fn from(limits: NetworkLimits) -> Self {
        Self {
            bytes_per_second: limits.bytes_per_second.map(ByteCount::get),
            connections: limits.connections,
            new_connections_per_second: limits.new_connections_per_second,
            ..Default::default()
        }
    }
}

impl From<v1::NetworkLimits> for NetworkLimits {
    fn from(wire: v1::NetworkLimits) -> Self {
        Self {
            bytes_per_second: wire.bytes_per_second.map(ByteCount),
            connections: wire.connections,
            new_connections_per_second: wire.new_connections_per_second,
        }
    }
}

impl From<NetworkTraffic> for v1::NetworkTraffic {
    fn from(traffic: NetworkTraffic) -> Self {
        Self {
            bytes_sent: traffic.bytes_sent,
            bytes_received: traffic.bytes_received,
            connections: traffic.connections,
            allowed: traffic.allowed,
            denied: traffic.denied,
            ..Default::default()
        }
    }
}

impl From<v1::NetworkTraffic> for NetworkTraffic {
    fn from(wire: v1::NetworkTraffic) -> Self {
        Self {
            bytes_sent: wire.bytes_sent,
            bytes_received: wire.bytes_received,
            connections: wire.connections,
            allowed: wire.allowed,
            denied: wire.denied,
        }
    }
}

impl From<NetworkStatus> for v1::NetworkStatus {
    fn from(status: NetworkStatus) -> Self {
        Self {
            network: v1::NetworkPolicy::from(status.policy).into(),
            enforced: status.enforced.is_yes(),
            reason: status.enforced.reason().unwrap_or_default().to_owned(),
            traffic: v1::NetworkTraffic::from(status.traffic).into(),
            traffic_token: status
                .traffic_token
                .map(|token| token.expose().to_owned())
                .unwrap_or_default(),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::NetworkStatus> for NetworkStatus {
    type Error = Error;

    fn try_from(wire: v1::NetworkStatus) -> Result<Self> {
        Ok(Self {
            policy: wire
                .network
                .into_option()
                .ok_or_else(|| missing("network"))?
                .try_into()?,
            enforced: if wire.enforced {
                Capability::Yes
            } else {
                Capability::no(wire.reason)
            },
            traffic: wire
                .traffic
                .into_option()
                .map(Into::into)
                .unwrap_or_default(),
            traffic_token: Some(wire.traffic_token)
                .filter(|token| !token.is_empty())
                .map(SecretValue::new)
                .transpose()
                .map_err(|error| error.with_field("traffic_token"))?,
        })
    }
}

impl v1::SetNetworkRequest {
    pub fn new(session: &SessionId, policy: NetworkPolicy) -> Self {
        Self {
            session_id: session.as_str().to_owned(),
            network: v1::NetworkPolicy::from(policy).into(),
            ..Default::default()
        }
    }

    /// Returns the session and its new policy.
    pub fn unpack(self) -> Result<(SessionId, NetworkPolicy)> {
        let session = SessionId::new(self.session_id)?;
        let policy = self.network.into_option().ok_or_else(|| {
            missing("network")
                .with_hint("send the whole policy; an empty one, `{}`, closes the network")
        })?;
        Ok((session, policy.try_into()?))
    }
}

impl From<SecretInfo> for v1::Secret {
    fn from(secret: SecretInfo) -> Self {
        Self {
            name: secret.name.into(),
            changed: pack_time(secret.changed),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::Secret> for SecretInfo {
    type Error = Error;

    fn try_from(wire: v1::Secret) -> Result<Self> {
        Ok(Self {
            name: SecretName::new(wire.name)?,
            changed: unpack_time("changed", wire.changed)?,
        })
    }
}

impl v1::PutSecretRequest {
    pub fn new(name: &SecretName, value: &SecretValue) -> Self {
        Self {
            name: name.as_str().to_owned(),
            value: value.expose().to_owned(),
            ..Default::default()
        }
    }

    /// Returns name and value of the secret.
    pub fn unpack(self) -> Result<(SecretName, SecretValue)> {
        let name = SecretName::new(self.name).map_err(|error| error.with_field("name"))?;
        Ok((name, SecretValue::new(self.value)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> NetworkPolicy {
        NetworkPolicy {
            allow_public_ingress: true,
            allow_outbound: false,
            allow_list: [
                "api.example",
                "*.example.org:443",
                "10.0.0.0/8",
                "udp://192.0.2.1:123",
            ]
            .map(|text| text.parse().unwrap())
            .into(),
            deny_list: vec!["[2001:db8::/32]:443".parse().unwrap()],
            private_ranges: vec!["10.20.0.0/16".parse().unwrap()],
            required: false,
            inspect_tls: true,
            secrets: vec![HeaderRule {
                host: "api.example".parse().unwrap(),
                port: Some(8443),
                header: "Authorization".into(),
                secret: SecretName::new("key").unwrap(),
                format: Some("Bearer {}".into()),
            }],
            limits: NetworkLimits {
                bytes_per_second: Some(ByteCount::mib(10)),
                connections: Some(7),
                new_connections_per_second: Some(3),
            },
        }
    }

    #[test]
    fn network_policy_survives_the_wire() {
        for sent in [policy(), NetworkPolicy::none(), NetworkPolicy::full()] {
            assert_eq!(
                NetworkPolicy::try_from(v1::NetworkPolicy::from(sent.clone())).unwrap(),
                sent
            );
            let enforced = Capability::no("no gate here");
            let traffic = NetworkTraffic {
                bytes_sent: 1,
                bytes_received: 2,
                connections: 3,
                allowed: 4,
                denied: u64::MAX,
            };
            let status = NetworkStatus {
                policy: sent,
                enforced,
                traffic,
                traffic_token: SecretValue::new("sbt_1").ok(),
            };
            assert_eq!(
                NetworkStatus::try_from(v1::NetworkStatus::from(status.clone())).unwrap(),
                status
            );
        }
    }

    #[test]
    fn empty_network_policy_is_closed_and_required() {
        let policy = NetworkPolicy::try_from(v1::NetworkPolicy::default()).unwrap();
        assert_eq!(policy, NetworkPolicy::none());
        assert!(policy.required && policy.is_closed());
    }

    #[test]
    fn invalid_policy_field_is_named_with_a_hint() {
        let entries = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let rule = v1::HeaderRule::from(policy().secrets.remove(0));
        let with_rule = |rule: v1::HeaderRule| v1::NetworkPolicy {
            allow_list: entries(&["api.example"]),
            secrets: vec![rule],
            ..Default::default()
        };
        let limited = |limits: v1::NetworkLimits| v1::NetworkPolicy {
            limits: limits.into(),
            ..Default::default()
        };
        let cases = [
            (
                v1::NetworkPolicy {
                    allow_list: entries(&["http://x"]),
                    ..Default::default()
                },
                "network.allow_list",
            ),
            (
                v1::NetworkPolicy {
                    deny_list: entries(&["a", ""]),
                    ..Default::default()
                },
                "network.deny_list",
            ),
            (
                v1::NetworkPolicy {
                    private_ranges: entries(&["10.0.0.1/8"]),
                    ..Default::default()
                },
                "network.private_ranges",
            ),
            (
                with_rule(v1::HeaderRule {
                    host: "a/b".into(),
                    ..rule.clone()
                }),
                "network.secrets.host",
            ),
            (
                with_rule(v1::HeaderRule {
                    host: "other.example".into(),
                    ..rule.clone()
                }),
                "network.secrets",
            ),
            (
                with_rule(v1::HeaderRule {
                    port: Some(70000),
                    ..rule.clone()
                }),
                "network.secrets.port",
            ),
            (
                with_rule(v1::HeaderRule {
                    port: Some(0),
                    ..rule.clone()
                }),
                "network.secrets.port",
            ),
            (
                with_rule(v1::HeaderRule {
                    header: "Host".into(),
                    ..rule.clone()
                }),
                "network.secrets.header",
            ),
            (
                with_rule(v1::HeaderRule {
                    secret: "a/b".into(),
                    ..rule.clone()
                }),
                "network.secrets.secret",
            ),
            (
                with_rule(v1::HeaderRule {
                    format: Some("x".into()),
                    ..rule
                }),
                "network.secrets.format",
            ),
            (
                limited(v1::NetworkLimits {
                    bytes_per_second: Some(0),
                    ..Default::default()
                }),
                "network.limits.bytes_per_second",
            ),
            (
                limited(v1::NetworkLimits {
                    connections: Some(0),
                    ..Default::default()
                }),
                "network.limits.connections",
            ),
        ];
        for (wire, field) in cases {
            let error = NetworkPolicy::try_from(wire).unwrap_err();
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(error.hint().is_some(), "{error}");
        }
        let empty = v1::SetNetworkRequest {
            session_id: "box".into(),
            ..Default::default()
        };
        assert_eq!(empty.unpack().unwrap_err().field(), Some("network"));
    }

    #[test]
    fn secret_survives_the_wire_and_invalid_one_is_named() {
        let (name, value) = (
            SecretName::new("key").unwrap(),
            SecretValue::new("hunter2").unwrap(),
        );
        assert_eq!(
            v1::PutSecretRequest::new(&name, &value).unpack().unwrap(),
            (name.clone(), value.clone())
        );
        let info = SecretInfo {
            name,
            changed: "2026-11-15T12:00:00Z".parse().unwrap(),
        };
        assert_eq!(
            SecretInfo::try_from(v1::Secret::from(info.clone())).unwrap(),
            info
        );
        for (name, value, field) in [
            ("", "x", "name"),
            ("a/b", "x", "name"),
            ("a", "", "value"),
            ("a", "x\n", "value"),
        ] {
            let wire = v1::PutSecretRequest {
                name: name.into(),
                value: value.into(),
                ..Default::default()
            };
            assert_eq!(
                wire.unpack().unwrap_err().field(),
                Some(field),
                "{name:?} {value:?}"
            );
        }
    }
}
