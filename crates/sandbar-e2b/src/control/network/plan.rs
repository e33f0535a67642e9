//! Translation of E2B's network settings to the policy of a session.

use sandbar_core::{
    Destination, DomainPattern, HeaderRule, NetworkPolicy, SecretName, SecretValue, SessionId,
    Target,
};

use super::ranges::Range;
use crate::{
    control::not_offered,
    rest::{ApiResult, bad_request},
    sandboxes::{NetworkConfig, Rules},
};

/// Contains E2B's own text.
const DOMAINS_NEED_DENY_ALL: &str = "`network.allowOut` names domains and `network.denyOut` leaves the rest open: when \
    specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' (`0.0.0.0/0`) in deny out to block all other traffic";

/// Policy of a session, and the secrets it refers to.
#[derive(Debug)]
pub(in crate::control) struct NetworkPlan {
    pub(in crate::control) policy: NetworkPolicy,
    /// Stored before the policy is set, which refers to them by name.
    pub(in crate::control) secrets: Vec<(SecretName, SecretValue)>,
}

/// Entry of `allowOut` or `denyOut`.
#[derive(Clone, Debug)]
enum Entry {
    Everything,
    Range(Range),
    /// A domain, or an address with a port.
    Other(Destination),
}

impl NetworkPlan {
    /// Translates the settings. `internet` is `allow_internet_access`: `false` denies everything
    /// that is not in `allowOut`.
    ///
    /// In E2B `allowOut` takes precedence over `denyOut`; in a session policy deny takes
    /// precedence. Allowed ranges are therefore subtracted from denied ones.
    pub(in crate::control) fn new(
        id: &SessionId,
        config: &NetworkConfig,
        internet: Option<bool>,
    ) -> ApiResult<Self> {
        let allowed = entries("network.allowOut", config.allow_out.as_deref())?;
        let denied = entries("network.denyOut", config.deny_out.as_deref())?;
        let is_all = |entry: &Entry| matches!(entry, Entry::Everything);
        let denies_all =
            (internet == Some(false) || denied.iter().any(is_all)) && !allowed.iter().any(is_all);
        if !denies_all && allowed.iter().any(is_domain) && !allowed.iter().any(is_all) {
            return Err(bad_request(DOMAINS_NEED_DENY_ALL));
        }
        let mut policy = NetworkPolicy {
            allow_public_ingress: config.is_public(),
            allow_outbound: !denies_all,
            allow_list: destinations(&allowed)?,
            deny_list: deny_list(&allowed, &denied, denies_all)?,
            ..NetworkPolicy::default()
        };
        let secrets = add_rules(id, &mut policy, config.rules.as_ref())?;
        // A host that cannot enforce policies may still create a sandbox without restrictions.
        policy.required = !policy.is_unrestricted();
        Ok(Self { policy, secrets })
    }
}

fn entries(field: &str, texts: Option<&[String]>) -> ApiResult<Vec<Entry>> {
    texts
        .unwrap_or_default()
        .iter()
        .map(|text| entry(field, text.trim()))
        .collect()
}

fn entry(field: &str, text: &str) -> ApiResult<Entry> {
    if let Some(range) = Range::parse(text) {
        // E2B's notation for all traffic; it has no IPv6.
        return Ok(if range.is_everything() && text.starts_with('0') {
            Entry::Everything
        } else {
            Entry::Range(range)
        });
    }
    if text == "*" {
        return Ok(Entry::Everything);
    }
    text.parse().map(Entry::Other).map_err(|error| {
        bad_request(format!(
            "`{field}`: {} ({})",
            error.message(),
            error.hint().unwrap_or("use an address, a range or a name")
        ))
    })
}

fn is_domain(entry: &Entry) -> bool {
    matches!(
        entry,
        Entry::Other(Destination {
            target: Target::Domain(_),
            ..
        })
    )
}

fn destinations(entries: &[Entry]) -> ApiResult<Vec<Destination>> {
    entries
        .iter()
        .filter_map(|entry| destination(entry).transpose())
        .collect()
}

fn destination(entry: &Entry) -> ApiResult<Option<Destination>> {
    match entry {
        Entry::Everything => Ok(None),
        Entry::Range(range) => Ok(Some(range.to_string().parse()?)),
        Entry::Other(destination) => Ok(Some(destination.clone())),
    }
}

/// Returns the deny list. If everything is denied, only denied domains below an allowed pattern
/// still matter.
fn deny_list(allowed: &[Entry], denied: &[Entry], denies_all: bool) -> ApiResult<Vec<Destination>> {
    if allowed
        .iter()
        .any(|entry| matches!(entry, Entry::Everything))
    {
        return Ok(Vec::new());
    }
    let mut list = Vec::new();
    for entry in denied {
        match entry {
            Entry::Everything => {}
            Entry::Range(_) if denies_all => {}
            Entry::Range(range) => {
                list.extend(without(*range, allowed)?.into_iter().map(Entry::Range));
            }
            Entry::Other(_) => list.push(entry.clone()),
        }
    }
    destinations(&list)
}

/// Subtracts the allowed ranges from a denied one.
fn without(denied: Range, allowed: &[Entry]) -> ApiResult<Vec<Range>> {
    let mut left = vec![denied];
    for entry in allowed {
        match entry {
            Entry::Range(range) => {
                left = left
                    .into_iter()
                    .flat_map(|part| part.without(*range))
                    .collect();
            }
            Entry::Other(Destination {
                target: Target::Addresses(range),
                ..
            }) => {
                let overlaps =
                    Range::parse(&range.to_string()).is_some_and(|range| range.overlaps(denied));
                if overlaps {
                    return Err(bad_request(format!(
                        "`network.allowOut` allows a port of `{range}` that `network.denyOut` denies with `{denied}` \
                         (allow the address without a port, or deny everything with `0.0.0.0/0`)"
                    )));
                }
            }
            Entry::Everything | Entry::Other(_) => {}
        }
    }
    Ok(left)
}

/// Adds the rules that inject headers. Values become secrets of the host; rules for destinations
/// the policy denies are dropped.
fn add_rules(
    id: &SessionId,
    policy: &mut NetworkPolicy,
    rules: Option<&Rules>,
) -> ApiResult<Vec<(SecretName, SecretValue)>> {
    let mut secrets = Vec::new();
    // Fresh names: the previous policy stays in force, with its secrets, until this one is set.
    let series = SessionId::random();
    for (host, rules) in rules.into_iter().flatten() {
        let pattern: DomainPattern = host.parse()?;
        refuse_overlap(host, &pattern, policy)?;
        let headers = rules
            .iter()
            .filter_map(|rule| rule.transform.as_ref()?.headers.as_ref())
            .flatten();
        for (header, value) in headers {
            // A placeholder must not be sent literally.
            if value.contains("${e2b.") {
                return Err(not_offered::refuse(
                    "a placeholder of `Secret` or of `iam` (workload identity) in `network.rules`, where values are written out,",
                ));
            }
            let secret =
                SecretName::new(format!("{}{}.{}", secrets_of(id), series, secrets.len()))?;
            let rule = HeaderRule {
                host: pattern.clone(),
                port: None,
                header: header.clone(),
                secret,
                format: None,
            };
            let wrong = |error: sandbar_core::Error| {
                bad_request(format!(
                    "`network.rules`: header `{}` for `{host}`: {}",
                    header.escape_debug(),
                    error.message()
                ))
            };
            rule.validate().map_err(wrong)?;
            let value = SecretValue::new(value.as_str()).map_err(wrong)?;
            let mut longer = policy.clone();
            longer.secrets.push(rule.clone());
            // A rule grants no access: one for a denied host would make the policy invalid.
            if longer.validate().is_ok() {
                *policy = longer;
                secrets.push((rule.secret, value));
            }
        }
    }
    Ok(secrets)
}

/// Refuses rules for both `*.example.com` and `a.example.com`: in E2B the second replaces the
/// first, here both would apply.
fn refuse_overlap(host: &str, pattern: &DomainPattern, policy: &NetworkPolicy) -> ApiResult<()> {
    let covers = |wide: &DomainPattern, narrow: &DomainPattern| {
        wide != narrow && matches!(narrow, DomainPattern::Exact(name) if wide.matches(name))
    };
    let other = policy
        .secrets
        .iter()
        .find(|rule| covers(&rule.host, pattern) || covers(pattern, &rule.host));
    match other {
        None => Ok(()),
        Some(rule) => Err(bad_request(format!(
            "`network.rules` has rules for `{host}` and for `{}`, which overlap (list the hosts individually)",
            rule.host
        ))),
    }
}

/// Returns the prefix of the names of a sandbox's secrets.
pub(in crate::control) fn secrets_of(id: &SessionId) -> String {
    format!("e2b.{id}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(network: serde_json::Value, internet: Option<bool>) -> ApiResult<NetworkPlan> {
        let config: NetworkConfig = serde_json::from_value(network).unwrap();
        NetworkPlan::new(&SessionId::new("s1").unwrap(), &config, internet)
    }

    fn list(entries: &[Destination]) -> Vec<String> {
        entries.iter().map(Destination::to_string).collect()
    }

    #[test]
    fn empty_settings_allow_everything() {
        let plan = plan(serde_json::json!({}), None).unwrap();
        assert!(
            plan.policy.allow_outbound && plan.policy.allow_public_ingress && !plan.policy.required
        );
        assert!(plan.policy.is_unrestricted());
    }

    #[test]
    fn without_internet_only_the_allow_list_is_reachable() {
        let plan = plan(
            serde_json::json!({ "allowOut": ["1.1.1.1", "*.example.com", "8.8.8.8/24"] }),
            Some(false),
        )
        .unwrap();
        assert!(!plan.policy.allow_outbound && plan.policy.required);
        assert_eq!(
            list(&plan.policy.allow_list),
            ["1.1.1.1", "*.example.com", "8.8.8.0/24"]
        );
    }

    #[test]
    fn allow_list_takes_precedence_over_deny_list() {
        let all = plan(
            serde_json::json!({ "denyOut": ["0.0.0.0/0", "8.0.0.0/8"], "allowOut": ["8.8.8.8"] }),
            None,
        )
        .unwrap();
        assert_eq!(
            (all.policy.allow_outbound, list(&all.policy.allow_list)),
            (false, vec!["8.8.8.8".into()])
        );
        assert!(all.policy.deny_list.is_empty());
        let some = plan(
            serde_json::json!({ "denyOut": ["8.8.8.0/30"], "allowOut": ["8.8.8.1"] }),
            None,
        )
        .unwrap();
        assert_eq!(list(&some.policy.deny_list), ["8.8.8.2/31", "8.8.8.0"]);
        let open = plan(
            serde_json::json!({ "denyOut": ["8.8.8.8"], "allowOut": ["0.0.0.0/0"] }),
            Some(false),
        )
        .unwrap();
        assert!(
            open.policy.allow_outbound
                && open.policy.deny_list.is_empty()
                && open.policy.allow_list.is_empty()
        );
    }

    #[test]
    fn settings_without_translation_are_refused_by_name() {
        for (network, field) in [
            (
                serde_json::json!({ "allowOut": ["example.com"] }),
                "network.allowOut",
            ),
            (
                serde_json::json!({ "denyOut": ["not a host"] }),
                "network.denyOut",
            ),
            (
                serde_json::json!({ "denyOut": ["8.8.8.0/24"], "allowOut": ["8.8.8.8:53"] }),
                "network.allowOut",
            ),
            (
                serde_json::json!({ "rules": { "a.example": [{ "transform": { "headers": { "Host": "x" } } }] } }),
                "network.rules",
            ),
            (
                serde_json::json!({ "rules": {
                    "*.example.com": [{ "transform": { "headers": { "A": "1" } } }],
                    "a.example.com": [{ "transform": { "headers": { "A": "2" } } }],
                } }),
                "network.rules",
            ),
        ] {
            let error = format!("{:?}", plan(network.clone(), None).unwrap_err());
            assert!(error.contains(field), "{network}: {error}");
        }
    }

    #[test]
    fn header_rules_become_secrets_if_the_host_is_reachable() {
        let rules = serde_json::json!({ "api.example": [{ "transform": { "headers": { "Authorization": "Bearer x" } } }] });
        let open = plan(serde_json::json!({ "rules": rules }), None).unwrap();
        assert_eq!((open.policy.secrets.len(), open.secrets.len()), (1, 1));
        assert!(open.secrets[0].0.as_str().starts_with("e2b.s1."));
        assert_eq!(open.secrets[0].1.expose(), "Bearer x");
        let denies_all = plan(serde_json::json!({ "rules": rules }), Some(false)).unwrap();
        assert!(denies_all.policy.secrets.is_empty() && denies_all.secrets.is_empty());
    }
}
