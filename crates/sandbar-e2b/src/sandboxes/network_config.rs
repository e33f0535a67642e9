//! Network settings of a sandbox as E2B's API writes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Stored in the note and shown in the details of the sandbox. A field that was not sent is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NetworkConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allow_public_traffic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allow_out: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deny_out: Option<Vec<String>>,
    /// `Host` header of requests to ports of the sandbox; `${PORT}` stands for the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mask_request_host: Option<String>,
    /// Ports on which servers in the sandbox speak TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) https_ports: Option<Vec<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rules: Option<Rules>,
}

/// Rules by host name or pattern.
pub(crate) type Rules = BTreeMap<String, Vec<Rule>>;

/// Change to the outgoing requests to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) transform: Option<Transform>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Transform {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) headers: Option<BTreeMap<String, String>>,
}

impl NetworkConfig {
    /// Replaces the egress part: `allowOut`, `denyOut` and `rules`.
    pub(crate) fn with_egress(self, egress: Self) -> Self {
        Self {
            allow_out: egress.allow_out,
            deny_out: egress.deny_out,
            rules: egress.rules,
            ..self
        }
    }

    /// Returns whether ports are reachable without a token.
    pub(crate) fn is_public(&self) -> bool {
        self.allow_public_traffic.unwrap_or(true)
    }

    /// Returns whether the server on a port speaks TLS.
    pub(crate) fn has_https(&self, port: u16) -> bool {
        self.https_ports
            .as_ref()
            .is_some_and(|ports| ports.contains(&port))
    }

    /// Returns whether headers are injected into requests, for which the host stores secrets.
    pub(crate) fn has_rules(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| !rules.is_empty())
    }

    /// Removes injected header values, for callers that may read but not use the sandbox.
    pub(crate) fn without_secrets(mut self) -> Self {
        let transforms = self
            .rules
            .iter_mut()
            .flat_map(BTreeMap::values_mut)
            .flatten()
            .filter_map(|rule| rule.transform.as_mut());
        for transform in transforms {
            transform.headers = None;
        }
        self
    }
}
