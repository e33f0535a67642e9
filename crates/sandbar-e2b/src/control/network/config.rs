//! What a request says about the network of a sandbox, as E2B writes it.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use sandbar_core::DomainPattern;
use serde::{Deserialize, Serialize};

use crate::{
    answer::ControlError,
    control::{
        Answer,
        fields::{Fields, bad_request},
    },
};

/// Kept with the sandbox, and told to whoever asks about it. A field that was not sent is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NetworkConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allow_public_traffic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allow_out: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deny_out: Option<Vec<String>>,
    /// The `Host` of requests to ports of the sandbox, with `${PORT}` for the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mask_request_host: Option<String>,
    /// Ports of the sandbox on which its servers speak TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    https_ports: Option<Vec<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rules: Option<Rules>,
}

pub(super) type Rules = BTreeMap<String, Vec<Rule>>;

/// What is done with requests to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) transform: Option<Transform>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Transform {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) headers: Option<BTreeMap<String, String>>,
}

impl NetworkConfig {
    /// Reads `network` of a request for a new sandbox.
    pub(in crate::control) fn read(fields: &mut Fields) -> Answer<Option<Self>> {
        let Some(mut network) = fields.object("network")? else { return Ok(None) };
        let egress = Self::read_egress(&mut network)?;
        refuse(
            &network,
            "dnsServers",
            "`network.dnsServers`",
            "the host's own servers are asked; set `dns_servers` of the host",
        )?;
        let mask_request_host: Option<String> = network.take("maskRequestHost")?;
        if let Some(host) = &mask_request_host {
            check_mask(host)?;
        }
        let https_ports: Option<Vec<u16>> = network.take("httpsPorts")?;
        if https_ports.as_ref().is_some_and(|ports| ports.contains(&0)) {
            return Err(bad_request("`network.httpsPorts` has 0 in it; send ports from 1 to 65535"));
        }
        let allow_public_traffic = network.take("allowPublicTraffic")?;
        Ok(Some(Self { allow_public_traffic, mask_request_host, https_ports, ..egress }))
    }

    /// Reads the part that says what the sandbox may reach.
    pub(in crate::control) fn read_egress(fields: &mut Fields) -> Answer<Self> {
        refuse(
            fields,
            "egressProxy",
            "`network.egressProxy`",
            "leave it out; traffic goes out by the host's own gateway",
        )?;
        let rules: Option<Rules> = fields.take("rules")?;
        Ok(Self {
            allow_out: fields.take("allowOut")?,
            deny_out: fields.take("denyOut")?,
            rules: rules.map(normal_rules).transpose()?,
            ..Self::default()
        })
    }

    /// This with another egress part.
    pub(in crate::control) fn with_egress(self, egress: Self) -> Self {
        Self { allow_out: egress.allow_out, deny_out: egress.deny_out, rules: egress.rules, ..self }
    }

    /// Whether ports may be reached without a token.
    pub(in crate::control) fn is_public(&self) -> bool {
        self.allow_public_traffic.unwrap_or(true)
    }

    /// Whether what listens on a port is spoken to in TLS.
    pub(crate) fn has_https(&self, port: u16) -> bool {
        self.https_ports.as_ref().is_some_and(|ports| ports.contains(&port))
    }

    /// Whether headers are put into requests, for which the host keeps secrets.
    pub(in crate::control) fn has_rules(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| !rules.is_empty())
    }

    /// Without what is put into headers, for those who may look but not touch.
    pub(in crate::control) fn without_secrets(mut self) -> Self {
        let transforms =
            self.rules.iter_mut().flat_map(BTreeMap::values_mut).flatten().filter_map(|rule| rule.transform.as_mut());
        for transform in transforms {
            transform.headers = None;
        }
        self
    }
}

/// What cannot be honoured is refused by its name, never ignored.
fn refuse(fields: &Fields, name: &str, shown: &str, instead: &str) -> Answer<()> {
    if fields.has(name) {
        let why = format!("{shown} is not offered by this host ({instead})");
        return Err(ControlError::new(StatusCode::NOT_IMPLEMENTED, why));
    }
    Ok(())
}

/// Hosts of rules in lower case, as they are matched.
fn normal_rules(rules: Rules) -> Answer<Rules> {
    let mut normal = Rules::new();
    for (host, own) in rules {
        let lower = host.to_ascii_lowercase();
        lower
            .parse::<DomainPattern>()
            .map_err(|error| bad_request(format!("`network.rules` has a host that cannot be: {}", error.message())))?;
        normal.entry(lower).or_default().extend(own);
    }
    Ok(normal)
}

fn check_mask(host: &str) -> Answer<()> {
    let shown = host.replace("${PORT}", "1");
    let usable = !shown.is_empty()
        && shown.len() <= 253
        && shown.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'_'));
    if usable {
        return Ok(());
    }
    Err(bad_request(format!(
        "`network.maskRequestHost` is `{}`, which is no host name (write for example `${{PORT}}-app.example.com`)",
        host.escape_debug()
    )))
}
