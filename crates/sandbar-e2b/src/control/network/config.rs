//! Reading the network settings of a request.

use axum::http::StatusCode;
use sandbar_core::DomainPattern;

use crate::{
    rest::{ApiError, ApiResult, Fields, bad_request},
    sandboxes::{NetworkConfig, Rules},
};

impl NetworkConfig {
    /// Reads `network` of a create request.
    pub(in crate::control) fn read(fields: &mut Fields) -> ApiResult<Option<Self>> {
        let Some(mut network) = fields.object("network")? else {
            return Ok(None);
        };
        let egress = Self::read_egress(&mut network)?;
        refuse(
            &network,
            "dnsServers",
            "`network.dnsServers`",
            "the host's DNS servers are used; set `dns_servers` in its configuration",
        )?;
        let mask_request_host: Option<String> = network.take("maskRequestHost")?;
        if let Some(host) = &mask_request_host {
            check_mask(host)?;
        }
        let https_ports: Option<Vec<u16>> = network.take("httpsPorts")?;
        if https_ports.as_ref().is_some_and(|ports| ports.contains(&0)) {
            return Err(bad_request(
                "`network.httpsPorts` has 0 in it; send ports from 1 to 65535",
            ));
        }
        let allow_public_traffic = network.take("allowPublicTraffic")?;
        Ok(Some(Self {
            allow_public_traffic,
            mask_request_host,
            https_ports,
            ..egress
        }))
    }

    /// Reads the egress part: `allowOut`, `denyOut` and `rules`.
    pub(in crate::control) fn read_egress(fields: &mut Fields) -> ApiResult<Self> {
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
}

/// Refuses a field this host cannot honour, rather than ignoring it.
fn refuse(fields: &Fields, name: &str, shown: &str, instead: &str) -> ApiResult<()> {
    if fields.has(name) {
        let why = format!("{shown} is not offered by this host ({instead})");
        return Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, why));
    }
    Ok(())
}

/// Converts the hosts of rules to lower case, as they are matched, and checks them.
fn normal_rules(rules: Rules) -> ApiResult<Rules> {
    let mut normal = Rules::new();
    for (host, own) in rules {
        let lower = host.to_ascii_lowercase();
        lower.parse::<DomainPattern>().map_err(|error| {
            bad_request(format!(
                "`network.rules` has an invalid host: {}",
                error.message()
            ))
        })?;
        normal.entry(lower).or_default().extend(own);
    }
    Ok(normal)
}

fn check_mask(host: &str) -> ApiResult<()> {
    let shown = host.replace("${PORT}", "1");
    let usable = !shown.is_empty()
        && shown.len() <= 253
        && shown
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'_'));
    if usable {
        return Ok(());
    }
    Err(bad_request(format!(
        "`network.maskRequestHost` is `{}`, which is not a host name (write for example `${{PORT}}-app.example.com`)",
        host.escape_debug()
    )))
}
