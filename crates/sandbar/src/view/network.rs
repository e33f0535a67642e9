//! Presentation of network policies and secrets.

use sandbar_core::{
    Capability, HeaderRule, NetworkPolicy, NetworkStatus, NetworkTraffic, SecretInfo, SecretValue,
    SessionId,
};
use serde::Serialize;

/// JSON of the network of a sandbox. The policy has the form that `@FILE` reads.
#[derive(Debug, Serialize)]
pub(crate) struct NetworkView<'a> {
    session_id: &'a str,
    network: &'a NetworkPolicy,
    enforced: bool,
    reason: Option<&'a str>,
    traffic: NetworkTraffic,
    traffic_token: Option<&'a str>,
}

impl<'a> NetworkView<'a> {
    pub(crate) fn new(id: &'a SessionId, status: &'a NetworkStatus) -> Self {
        Self {
            session_id: id.as_str(),
            network: &status.policy,
            enforced: status.enforced.is_yes(),
            reason: status.enforced.reason(),
            traffic: status.traffic,
            traffic_token: status.traffic_token.as_ref().map(SecretValue::expose),
        }
    }
}

/// JSON of a secret, without its value.
#[derive(Debug, Serialize)]
pub(crate) struct SecretView<'a> {
    name: &'a str,
    changed: String,
}

impl<'a> From<&'a SecretInfo> for SecretView<'a> {
    fn from(secret: &'a SecretInfo) -> Self {
        Self {
            name: secret.name.as_str(),
            changed: secret.changed.to_string(),
        }
    }
}

/// Formats whether a policy is enforced, and why not.
pub(crate) fn enforcement(enforced: &Capability) -> String {
    match enforced {
        Capability::Yes => "yes".to_owned(),
        Capability::No(reason) => format!("no: {reason}"),
    }
}

/// Formats a rule as `--inject` takes it.
pub(crate) fn injection(rule: &HeaderRule) -> String {
    let secret = format!("{{{}}}", rule.secret);
    let value = rule.format.as_ref().map_or_else(
        || secret.clone(),
        |format| format.replacen("{}", &secret, 1),
    );
    match rule.port {
        Some(port) => format!("{}:{port} {}: {value}", rule.host, rule.header),
        None => format!("{} {}: {value}", rule.host, rule.header),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse;

    #[test]
    fn injection_rule_is_shown_as_it_is_typed() {
        for text in [
            "api.example Authorization: Bearer {key}",
            "*.example:8443 X-Api-Key: {my.key-2}",
        ] {
            assert_eq!(injection(&parse::injection(text).unwrap()), text);
        }
    }
}
