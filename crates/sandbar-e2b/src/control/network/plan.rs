//! What E2B says about a network, in the words of a session's policy.

use sandbar_core::{Destination, DomainPattern, HeaderRule, NetworkPolicy, SecretName, SecretValue, SessionId, Target};

use super::{NetworkConfig, config::Rules, ranges::Range};
use crate::control::{Answer, fields::bad_request, not_offered};

/// Said by E2B as well.
const DOMAINS_NEED_A_WALL: &str = "`network.allowOut` names domains and `network.denyOut` leaves the rest open: when \
    specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' (`0.0.0.0/0`) in deny out to block all other traffic";

/// What has to be done for a sandbox to have the network it asks for.
#[derive(Debug)]
pub(in crate::control) struct NetworkPlan {
    pub(in crate::control) policy: NetworkPolicy,
    /// Kept before the policy counts, which names them.
    pub(in crate::control) secrets: Vec<(SecretName, SecretValue)>,
}

/// One entry of a list.
#[derive(Clone, Debug)]
enum Entry {
    Everything,
    Range(Range),
    /// A name, or an address with ports.
    Other(Destination),
}

impl NetworkPlan {
    /// `internet` is `allow_internet_access`: `false` is everything denied that is not allowed by name.
    ///
    /// Allowed wins over denied in E2B, and denied over allowed here: allowed ranges are taken out of denied ones.
    pub(in crate::control) fn new(id: &SessionId, config: &NetworkConfig, internet: Option<bool>) -> Answer<Self> {
        let allowed = entries("network.allowOut", config.allow_out.as_deref())?;
        let denied = entries("network.denyOut", config.deny_out.as_deref())?;
        let is_all = |entry: &Entry| matches!(entry, Entry::Everything);
        let walled = (internet == Some(false) || denied.iter().any(is_all)) && !allowed.iter().any(is_all);
        if !walled && allowed.iter().any(is_domain) && !allowed.iter().any(is_all) {
            return Err(bad_request(DOMAINS_NEED_A_WALL));
        }
        let mut policy = NetworkPolicy {
            allow_public_ingress: config.is_public(),
            allow_outbound: !walled,
            allow_list: destinations(&allowed)?,
            deny_list: deny_list(&allowed, &denied, walled)?,
            ..NetworkPolicy::default()
        };
        let secrets = add_rules(id, &mut policy, config.rules.as_ref())?;
        // A host that cannot keep it may still make a sandbox that asks for nothing in particular.
        policy.required = !policy.is_unrestricted();
        Ok(Self { policy, secrets })
    }
}

fn entries(field: &str, texts: Option<&[String]>) -> Answer<Vec<Entry>> {
    texts.unwrap_or_default().iter().map(|text| entry(field, text.trim())).collect()
}

fn entry(field: &str, text: &str) -> Answer<Entry> {
    if let Some(range) = Range::parse(text) {
        // The all of E2B, which has no IPv6.
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
    matches!(entry, Entry::Other(Destination { target: Target::Domain(_), .. }))
}

fn destinations(entries: &[Entry]) -> Answer<Vec<Destination>> {
    entries.iter().filter_map(|entry| destination(entry).transpose()).collect()
}

fn destination(entry: &Entry) -> Answer<Option<Destination>> {
    match entry {
        Entry::Everything => Ok(None),
        Entry::Range(range) => Ok(Some(range.to_string().parse()?)),
        Entry::Other(destination) => Ok(Some(destination.clone())),
    }
}

/// What stays denied. Behind a wall everything is, and only names that are denied below an allowed one still matter.
fn deny_list(allowed: &[Entry], denied: &[Entry], walled: bool) -> Answer<Vec<Destination>> {
    if allowed.iter().any(|entry| matches!(entry, Entry::Everything)) {
        return Ok(Vec::new());
    }
    let mut list = Vec::new();
    for entry in denied {
        match entry {
            Entry::Everything => {}
            Entry::Range(_) if walled => {}
            Entry::Range(range) => list.extend(without(*range, allowed)?.into_iter().map(Entry::Range)),
            Entry::Other(_) => list.push(entry.clone()),
        }
    }
    destinations(&list)
}

/// A denied range without what is allowed of it.
fn without(denied: Range, allowed: &[Entry]) -> Answer<Vec<Range>> {
    let mut left = vec![denied];
    for entry in allowed {
        match entry {
            Entry::Range(range) => left = left.into_iter().flat_map(|part| part.without(*range)).collect(),
            Entry::Other(Destination { target: Target::Addresses(range), .. }) => {
                let overlaps = Range::parse(&range.to_string()).is_some_and(|range| range.overlaps(denied));
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

/// Headers that are put into requests. The values become secrets of the host; a host that cannot be reached gets none.
fn add_rules(
    id: &SessionId,
    policy: &mut NetworkPolicy,
    rules: Option<&Rules>,
) -> Answer<Vec<(SecretName, SecretValue)>> {
    let mut secrets = Vec::new();
    // Other names than those of the policy before, which counts until this one does.
    let series = SessionId::random();
    for (host, rules) in rules.into_iter().flatten() {
        let pattern: DomainPattern = host.parse()?;
        refuse_overlap(host, &pattern, policy)?;
        let headers = rules.iter().filter_map(|rule| rule.transform.as_ref()?.headers.as_ref()).flatten();
        for (header, value) in headers {
            // What stands for something else must not go out as it is.
            if value.contains("${e2b.") {
                return Err(not_offered::refuse(
                    "a placeholder of `Secret` or of `iam` (workload identity) in `network.rules`, where values are written out,",
                ));
            }
            let secret = SecretName::new(format!("{}{}.{}", secrets_of(id), series, secrets.len()))?;
            let rule = HeaderRule { host: pattern.clone(), port: None, header: header.clone(), secret, format: None };
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
            // Rules grant nothing: one for a host behind the wall is never used.
            if longer.validate().is_ok() {
                *policy = longer;
                secrets.push((rule.secret, value));
            }
        }
    }
    Ok(secrets)
}

/// In E2B the rules of `a.example.com` replace those of `*.example.com`; here both would count.
fn refuse_overlap(host: &str, pattern: &DomainPattern, policy: &NetworkPolicy) -> Answer<()> {
    let covers = |wide: &DomainPattern, narrow: &DomainPattern| {
        wide != narrow && matches!(narrow, DomainPattern::Exact(name) if wide.matches(name))
    };
    let other = policy.secrets.iter().find(|rule| covers(&rule.host, pattern) || covers(pattern, &rule.host));
    match other {
        None => Ok(()),
        Some(rule) => Err(bad_request(format!(
            "`network.rules` has rules for `{host}` and for `{}`, which cover each other (name the hosts one by one)",
            rule.host
        ))),
    }
}

/// What the names of a sandbox's secrets begin with.
pub(in crate::control) fn secrets_of(id: &SessionId) -> String {
    format!("e2b.{id}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(network: serde_json::Value, internet: Option<bool>) -> Answer<NetworkPlan> {
        let config: NetworkConfig = serde_json::from_value(network).unwrap();
        NetworkPlan::new(&SessionId::new("s1").unwrap(), &config, internet)
    }

    fn list(entries: &[Destination]) -> Vec<String> {
        entries.iter().map(Destination::to_string).collect()
    }

    #[test]
    fn nothing_said_is_everything_open() {
        let plan = plan(serde_json::json!({}), None).unwrap();
        assert!(plan.policy.allow_outbound && plan.policy.allow_public_ingress && !plan.policy.required);
        assert!(plan.policy.is_unrestricted());
    }

    #[test]
    fn without_internet_only_what_is_allowed_is_left() {
        let plan =
            plan(serde_json::json!({ "allowOut": ["1.1.1.1", "*.example.com", "8.8.8.8/24"] }), Some(false)).unwrap();
        assert!(!plan.policy.allow_outbound && plan.policy.required);
        assert_eq!(list(&plan.policy.allow_list), ["1.1.1.1", "*.example.com", "8.8.8.0/24"]);
    }

    #[test]
    fn allowed_wins_over_denied() {
        let all =
            plan(serde_json::json!({ "denyOut": ["0.0.0.0/0", "8.0.0.0/8"], "allowOut": ["8.8.8.8"] }), None).unwrap();
        assert_eq!((all.policy.allow_outbound, list(&all.policy.allow_list)), (false, vec!["8.8.8.8".into()]));
        assert!(all.policy.deny_list.is_empty());
        let some = plan(serde_json::json!({ "denyOut": ["8.8.8.0/30"], "allowOut": ["8.8.8.1"] }), None).unwrap();
        assert_eq!(list(&some.policy.deny_list), ["8.8.8.2/31", "8.8.8.0"]);
        let open = plan(serde_json::json!({ "denyOut": ["8.8.8.8"], "allowOut": ["0.0.0.0/0"] }), Some(false)).unwrap();
        assert!(open.policy.allow_outbound && open.policy.deny_list.is_empty() && open.policy.allow_list.is_empty());
    }

    #[test]
    fn what_cannot_be_said_is_refused_by_name() {
        for (network, field) in [
            (serde_json::json!({ "allowOut": ["example.com"] }), "network.allowOut"),
            (serde_json::json!({ "denyOut": ["not a host"] }), "network.denyOut"),
            (serde_json::json!({ "denyOut": ["8.8.8.0/24"], "allowOut": ["8.8.8.8:53"] }), "network.allowOut"),
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
    fn headers_become_secrets_where_the_host_can_be_reached() {
        let rules =
            serde_json::json!({ "api.example": [{ "transform": { "headers": { "Authorization": "Bearer x" } } }] });
        let open = plan(serde_json::json!({ "rules": rules }), None).unwrap();
        assert_eq!((open.policy.secrets.len(), open.secrets.len()), (1, 1));
        assert!(open.secrets[0].0.as_str().starts_with("e2b.s1."));
        assert_eq!(open.secrets[0].1.expose(), "Bearer x");
        let walled = plan(serde_json::json!({ "rules": rules }), Some(false)).unwrap();
        assert!(walled.policy.secrets.is_empty() && walled.secrets.is_empty());
    }
}
