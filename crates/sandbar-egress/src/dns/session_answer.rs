//! Answers the DNS queries of a session by its rules.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Instant,
};

use hickory_proto::{
    op::{Query as Question, ResponseCode},
    rr::{Name, Record, RecordType},
};
use sandbar_core::{DomainName, NetworkDecision, NetworkProtocol, NetworkVerdict};
use sandbar_resolver::{LookupError, Resolver};

use super::{
    KnownNames,
    query::{ParsedQuery, Reply, Role, address_record},
};
use crate::rules::{Rules, Verdict};

const PORT: u16 = 53;
/// Longest TTL of an answer, so that the session soon learns of changes that the gateway knows of.
const MAX_TTL: u32 = 60;

/// Encoded answer, and the decision to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) message: Vec<u8>,
    pub(crate) decision: Option<NetworkDecision>,
}

/// Answers a query by the rules of the session; `None` if `query` is not a query. For `max_bytes`,
/// see [`Query::answer`](super::query::Query::answer).
pub(crate) async fn answer(
    query: &[u8],
    rules: &Rules,
    resolver: &Resolver,
    names: &KnownNames,
    own: &[IpAddr],
    max_bytes: usize,
) -> Option<Answer> {
    let (query, reply, decision) = match ParsedQuery::read(query)? {
        ParsedQuery::Settled(query, reply) => (query, reply, None),
        ParsedQuery::Open(query, question) => {
            let resolution = Session {
                rules,
                resolver,
                names,
                own,
            }
            .resolve(&question)
            .await;
            (
                query,
                Reply {
                    code: resolution.code,
                    answers: resolution.answers,
                },
                resolution.decision,
            )
        }
    };
    let message = query.answer(reply, Role::Recursive, max_bytes)?;
    Some(Answer { message, decision })
}

/// Content of an answer, and the decision to record.
struct Resolution {
    code: ResponseCode,
    answers: Vec<Record>,
    decision: Option<NetworkDecision>,
}

impl Resolution {
    const fn of(code: ResponseCode) -> Self {
        Self {
            code,
            answers: Vec::new(),
            decision: None,
        }
    }
}

/// Session whose query is answered.
struct Session<'a> {
    rules: &'a Rules,
    resolver: &'a Resolver,
    names: &'a KnownNames,
    own: &'a [IpAddr],
}

impl Session<'_> {
    async fn resolve(&self, question: &Question) -> Resolution {
        let Some(name) = domain(question.name()) else {
            return unknown(
                question.name().to_ascii(),
                "not a valid host name".to_owned(),
            );
        };
        if is_below(&name, "localhost") {
            return loopback(question);
        }
        if question.query_type() == RecordType::PTR
            && (is_below(&name, "in-addr.arpa") || is_below(&name, "ip6.arpa"))
        {
            // Programs look up every address, and the answer opens nothing: no decision is
            // recorded.
            let is_open = self.rules.policy().allow_outbound;
            return Resolution::of(if is_open {
                ResponseCode::NoError
            } else {
                ResponseCode::NXDomain
            });
        }
        let verdict = self.rules.lookup(&name);
        if !verdict.is_allowed() {
            return unknown(name.to_string(), verdict.reason().to_owned());
        }
        match question.query_type() {
            RecordType::A | RecordType::AAAA => {
                self.resolve_addresses(question, &name, &verdict).await
            }
            // These records carry addresses that are not judged, and ECH keys that would hide the
            // SNI.
            RecordType::HTTPS | RecordType::SVCB => Resolution {
                decision: Some(allowed(&name, &verdict)),
                ..Resolution::of(ResponseCode::NoError)
            },
            RecordType::NS
            | RecordType::CNAME
            | RecordType::SOA
            | RecordType::MX
            | RecordType::TXT
            | RecordType::SRV
            | RecordType::CAA => self.resolve_records(question, &name, &verdict).await,
            kind => refused(
                name.to_string(),
                format!("records of type {kind} are not looked up"),
            ),
        }
    }

    /// Resolves a name and returns only the addresses that the session may connect to. A name that
    /// resolves only to others, such as private ones, is denied (DNS rebinding).
    async fn resolve_addresses(
        &self,
        question: &Question,
        name: &DomainName,
        verdict: &Verdict,
    ) -> Resolution {
        let found = match self.resolver.find(name).await {
            Ok(found) => found,
            Err(LookupError::NotFound) => {
                return Resolution {
                    decision: Some(allowed(name, verdict)),
                    ..Resolution::of(ResponseCode::NXDomain)
                };
            }
            Err(LookupError::Failed(_)) => {
                return Resolution {
                    decision: Some(allowed(name, verdict)),
                    ..Resolution::of(ResponseCode::ServFail)
                };
            }
        };
        let mut open = Vec::new();
        let mut closed = None;
        for address in found
            .addresses
            .iter()
            .filter(|address| address.is_ipv4() == (question.query_type() == RecordType::A))
        {
            let verdict = self.rules.resolved_at_any_port(name, *address, self.own);
            if verdict.is_allowed() {
                open.push(*address);
            } else {
                closed = Some(verdict);
            }
        }
        if let (true, Some(closed)) = (open.is_empty(), closed) {
            let decision = decision(
                NetworkVerdict::Deny,
                name.to_string(),
                closed.reason().to_owned(),
            );
            return Resolution {
                decision: Some(decision),
                ..Resolution::of(ResponseCode::NoError)
            };
        }
        self.names.learn(name, open.iter().copied());
        let left = found
            .until
            .saturating_duration_since(Instant::now())
            .as_secs();
        let life = u32::try_from(left).unwrap_or(u32::MAX).clamp(1, MAX_TTL);
        let record = |address| address_record(question, address, life);
        Resolution {
            code: ResponseCode::NoError,
            answers: open.into_iter().map(record).collect(),
            decision: Some(allowed(name, verdict)),
        }
    }

    /// Returns records of the requested type and the `CNAME`s on the way. Addresses are excluded:
    /// they are judged by [`resolve_addresses`](Self::resolve_addresses).
    async fn resolve_records(
        &self,
        question: &Question,
        name: &DomainName,
        verdict: &Verdict,
    ) -> Resolution {
        let decision = Some(allowed(name, verdict));
        let kind = question.query_type();
        let mut answers = match self.resolver.records(name, kind).await {
            Ok(answers) => answers,
            Err(LookupError::NotFound) => {
                return Resolution {
                    decision,
                    ..Resolution::of(ResponseCode::NXDomain)
                };
            }
            Err(LookupError::Failed(_)) => {
                return Resolution {
                    decision,
                    ..Resolution::of(ResponseCode::ServFail)
                };
            }
        };
        answers.retain(|record| [kind, RecordType::CNAME].contains(&record.record_type()));
        for record in &mut answers {
            record.ttl = record.ttl.min(MAX_TTL);
        }
        Resolution {
            code: ResponseCode::NoError,
            answers,
            decision,
        }
    }
}

/// Returns the name as a host name, if it is one. A dot inside a label is rejected: it would be
/// read as the end of the label.
fn domain(name: &Name) -> Option<DomainName> {
    let labels: Option<Vec<&str>> = name
        .iter()
        .map(|label| {
            std::str::from_utf8(label)
                .ok()
                .filter(|label| !label.contains('.'))
        })
        .collect();
    labels?.join(".").parse().ok()
}

/// Answers `localhost` with the loopback of the session; it is never looked up.
fn loopback(question: &Question) -> Resolution {
    let address: Option<IpAddr> = match question.query_type() {
        RecordType::A => Some(Ipv4Addr::LOCALHOST.into()),
        RecordType::AAAA => Some(Ipv6Addr::LOCALHOST.into()),
        _ => None,
    };
    let record = |address| address_record(question, address, MAX_TTL);
    Resolution {
        answers: address.into_iter().map(record).collect(),
        ..Resolution::of(ResponseCode::NoError)
    }
}

fn is_below(name: &DomainName, above: &str) -> bool {
    name.as_str()
        .strip_suffix(above)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Answers `NXDOMAIN` for a denied name. Programs treat `REFUSED` as a temporary failure and retry.
fn unknown(host: String, reason: String) -> Resolution {
    Resolution {
        decision: Some(decision(NetworkVerdict::Deny, host, reason)),
        ..Resolution::of(ResponseCode::NXDomain)
    }
}

fn refused(host: String, reason: String) -> Resolution {
    Resolution {
        decision: Some(decision(NetworkVerdict::Deny, host, reason)),
        ..Resolution::of(ResponseCode::Refused)
    }
}

fn allowed(name: &DomainName, verdict: &Verdict) -> NetworkDecision {
    decision(
        NetworkVerdict::Allow,
        name.to_string(),
        verdict.reason().to_owned(),
    )
}

const fn decision(verdict: NetworkVerdict, host: String, reason: String) -> NetworkDecision {
    let protocol = NetworkProtocol::Dns;
    NetworkDecision {
        verdict,
        protocol,
        host: Some(host),
        address: None,
        port: PORT,
        reason,
        secrets: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
