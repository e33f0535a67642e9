//! What a session is told when it asks for a name.

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
    exchange::{Asked, Reply, Role, address_record},
};
use crate::rules::{Rules, Verdict};

const PORT: u16 = 53;
/// A session asks again soon, so that what it knows is what the gateway knows.
const LONGEST_LIFE: u32 = 60;

/// What goes back to the session, and what was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) message: Vec<u8>,
    pub(crate) decision: Option<NetworkDecision>,
}

/// Answers a query by the session's rules; nothing to what is no query. How long an answer may be is said by
/// [`Query::answer`](super::exchange::Query::answer).
pub(crate) async fn answer(
    query: &[u8],
    rules: &Rules,
    resolver: &Resolver,
    names: &KnownNames,
    own: &[IpAddr],
    most: usize,
) -> Option<Answer> {
    let (query, reply, decision) = match Asked::read(query)? {
        Asked::Settled(query, reply) => (query, reply, None),
        Asked::Open(query, question) => {
            let told = Session { rules, resolver, names, own }.tell(&question).await;
            (query, Reply { code: told.code, answers: told.answers }, told.decision)
        }
    };
    let message = query.answer(reply, Role::Recursive, most)?;
    Some(Answer { message, decision })
}

/// What the answer to a question will hold.
struct Told {
    code: ResponseCode,
    answers: Vec<Record>,
    decision: Option<NetworkDecision>,
}

impl Told {
    const fn of(code: ResponseCode) -> Self {
        Self { code, answers: Vec::new(), decision: None }
    }
}

/// Who asks.
struct Session<'a> {
    rules: &'a Rules,
    resolver: &'a Resolver,
    names: &'a KnownNames,
    own: &'a [IpAddr],
}

impl Session<'_> {
    async fn tell(&self, question: &Question) -> Told {
        let Some(name) = domain(question.name()) else {
            return unknown(question.name().to_ascii(), "no host has such a name".to_owned());
        };
        if is_below(&name, "localhost") {
            return own_loopback(question);
        }
        if question.query_type() == RecordType::PTR && (is_below(&name, "in-addr.arpa") || is_below(&name, "ip6.arpa"))
        {
            // Programs ask this about every address, and what they are told leads nowhere: nothing to decide.
            let is_open = self.rules.policy().allow_outbound;
            return Told::of(if is_open { ResponseCode::NoError } else { ResponseCode::NXDomain });
        }
        let verdict = self.rules.lookup(&name);
        if !verdict.is_allowed() {
            return unknown(name.to_string(), verdict.reason().to_owned());
        }
        match question.query_type() {
            RecordType::A | RecordType::AAAA => self.tell_addresses(question, &name, &verdict).await,
            // These hold other addresses, and keys that would hide the name of a server.
            RecordType::HTTPS | RecordType::SVCB => {
                Told { decision: Some(allowed(&name, &verdict)), ..Told::of(ResponseCode::NoError) }
            }
            RecordType::NS
            | RecordType::CNAME
            | RecordType::SOA
            | RecordType::MX
            | RecordType::TXT
            | RecordType::SRV
            | RecordType::CAA => self.tell_records(question, &name, &verdict).await,
            kind => refused(name.to_string(), format!("records of type {kind} are not looked up")),
        }
    }

    /// Only addresses that the session could go to. A name that leads to others only is how the inside is reached by a name.
    async fn tell_addresses(&self, question: &Question, name: &DomainName, verdict: &Verdict) -> Told {
        let found = match self.resolver.find(name).await {
            Ok(found) => found,
            Err(LookupError::NotFound) => {
                return Told { decision: Some(allowed(name, verdict)), ..Told::of(ResponseCode::NXDomain) };
            }
            Err(LookupError::Failed(_)) => {
                return Told { decision: Some(allowed(name, verdict)), ..Told::of(ResponseCode::ServFail) };
            }
        };
        let mut open = Vec::new();
        let mut closed = None;
        for address in
            found.addresses.iter().filter(|address| address.is_ipv4() == (question.query_type() == RecordType::A))
        {
            let verdict = self.rules.led_to(name, *address, self.own);
            if verdict.is_allowed() {
                open.push(*address);
            } else {
                closed = Some(verdict);
            }
        }
        if let (true, Some(closed)) = (open.is_empty(), closed) {
            let decision = decision(NetworkVerdict::Deny, name.to_string(), closed.reason().to_owned());
            return Told { decision: Some(decision), ..Told::of(ResponseCode::NoError) };
        }
        self.names.learn(name, open.iter().copied());
        let left = found.until.saturating_duration_since(Instant::now()).as_secs();
        let life = u32::try_from(left).unwrap_or(u32::MAX).clamp(1, LONGEST_LIFE);
        let record = |address| address_record(question, address, life);
        Told {
            code: ResponseCode::NoError,
            answers: open.into_iter().map(record).collect(),
            decision: Some(allowed(name, verdict)),
        }
    }

    /// What was asked for, and the aliases that lead there; never an address, since those are told by rules of their own.
    async fn tell_records(&self, question: &Question, name: &DomainName, verdict: &Verdict) -> Told {
        let decision = Some(allowed(name, verdict));
        let kind = question.query_type();
        let mut answers = match self.resolver.records(name, kind).await {
            Ok(answers) => answers,
            Err(LookupError::NotFound) => return Told { decision, ..Told::of(ResponseCode::NXDomain) },
            Err(LookupError::Failed(_)) => return Told { decision, ..Told::of(ResponseCode::ServFail) },
        };
        answers.retain(|record| [kind, RecordType::CNAME].contains(&record.record_type()));
        for record in &mut answers {
            record.ttl = record.ttl.min(LONGEST_LIFE);
        }
        Told { code: ResponseCode::NoError, answers, decision }
    }
}

/// The name as that of a host, if it can be one. A dot inside a label is no end of a label.
fn domain(name: &Name) -> Option<DomainName> {
    let labels: Option<Vec<&str>> =
        name.iter().map(|label| std::str::from_utf8(label).ok().filter(|label| !label.contains('.'))).collect();
    labels?.join(".").parse().ok()
}

/// `localhost` is the session itself, whatever the world says.
fn own_loopback(question: &Question) -> Told {
    let address: Option<IpAddr> = match question.query_type() {
        RecordType::A => Some(Ipv4Addr::LOCALHOST.into()),
        RecordType::AAAA => Some(Ipv6Addr::LOCALHOST.into()),
        _ => None,
    };
    let record = |address| address_record(question, address, LONGEST_LIFE);
    Told { answers: address.into_iter().map(record).collect(), ..Told::of(ResponseCode::NoError) }
}

fn is_below(name: &DomainName, above: &str) -> bool {
    name.as_str().strip_suffix(above).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// A name that does not exist for this session. "Refused" would be taken for a failure that passes: programs try again and
/// again, and tell people to wait.
fn unknown(host: String, reason: String) -> Told {
    Told { decision: Some(decision(NetworkVerdict::Deny, host, reason)), ..Told::of(ResponseCode::NXDomain) }
}

fn refused(host: String, reason: String) -> Told {
    Told { decision: Some(decision(NetworkVerdict::Deny, host, reason)), ..Told::of(ResponseCode::Refused) }
}

fn allowed(name: &DomainName, verdict: &Verdict) -> NetworkDecision {
    decision(NetworkVerdict::Allow, name.to_string(), verdict.reason().to_owned())
}

const fn decision(verdict: NetworkVerdict, host: String, reason: String) -> NetworkDecision {
    let protocol = NetworkProtocol::Dns;
    NetworkDecision { verdict, protocol, host: Some(host), address: None, port: PORT, reason, secrets: Vec::new() }
}

#[cfg(test)]
mod tests;
