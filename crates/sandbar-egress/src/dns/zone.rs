//! A DNS zone in which every name has the same addresses.

use std::net::IpAddr;

use hickory_proto::{
    op::{Query as Question, ResponseCode},
    rr::{Name, RecordType},
};
use sandbar_core::DomainName;

use super::query::{ParsedQuery, Reply, Role, address_record};

/// TTL of the records. It is short, so that a host that moves is found soon.
const TTL_SECONDS: u32 = 60;

/// A domain, and the addresses of it and of every name below it.
#[derive(Clone, Debug)]
pub struct Zone {
    /// `None` if the conversion failed, which does not happen for a `DomainName`; no name matches
    /// then.
    domain: Option<Name>,
    addresses: Vec<IpAddr>,
}

impl Zone {
    pub fn new(domain: &DomainName, addresses: Vec<IpAddr>) -> Self {
        Self {
            domain: Name::from_labels(domain.as_str().split('.').map(str::as_bytes)).ok(),
            addresses,
        }
    }

    /// Answers a query for a name in the zone; refuses others. Never queries another server.
    pub(super) fn answer(&self, query: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
        let (query, reply) = match ParsedQuery::read(query)? {
            ParsedQuery::Settled(query, reply) => (query, reply),
            ParsedQuery::Open(query, question) => (query, self.reply(&question)),
        };
        query.answer(reply, Role::Authoritative, max_bytes)
    }

    fn reply(&self, question: &Question) -> Reply {
        if !self
            .domain
            .as_ref()
            .is_some_and(|domain| domain.zone_of(question.name()))
        {
            return Reply::of(ResponseCode::Refused);
        }
        let is_asked_for = |address: &&IpAddr| match question.query_type() {
            RecordType::A => address.is_ipv4(),
            RecordType::AAAA => address.is_ipv6(),
            _ => false,
        };
        let record = |address: &IpAddr| address_record(question, *address, TTL_SECONDS);
        Reply {
            code: ResponseCode::NoError,
            answers: self
                .addresses
                .iter()
                .filter(is_asked_for)
                .map(record)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::Message;
    use sandbar_testing::name_server::{dns_name, leads};

    use super::*;
    use crate::dns::query::MAX_DATAGRAM_BYTES;

    fn ask(name: Name, kind: RecordType) -> Message {
        let zone = Zone::new(
            &"sbx.test".parse().unwrap(),
            vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
        );
        let mut query = Message::query();
        query.metadata.recursion_desired = true;
        query.add_query(Question::query(name, kind));
        let answer = Message::from_vec(
            &zone
                .answer(&query.to_vec().unwrap(), MAX_DATAGRAM_BYTES)
                .unwrap(),
        )
        .unwrap();
        assert_eq!(
            (answer.id, answer.authoritative, answer.recursion_available),
            (query.id, true, false)
        );
        assert!(answer.recursion_desired);
        answer
    }

    #[test]
    fn names_in_the_zone_resolve_to_its_addresses() {
        for name in [
            "sbx.test",
            "api.sbx.test",
            "49983-i1a2.sbx.test",
            "a.b.Sbx.TEST",
        ] {
            assert_eq!(
                ask(dns_name(name), RecordType::A).answers,
                [leads(name, "127.0.0.1", TTL_SECONDS)],
                "{name}"
            );
            assert_eq!(
                ask(dns_name(name), RecordType::AAAA).answers,
                [leads(name, "::1", TTL_SECONDS)],
                "{name}"
            );
            // The name exists and has no record of that type.
            let other = ask(dns_name(name), RecordType::MX);
            assert_eq!(
                (other.response_code, other.answers.len()),
                (ResponseCode::NoError, 0),
                "{name}"
            );
        }
    }

    #[test]
    fn names_outside_the_zone_are_refused() {
        // One label whose bytes look like the end of a name.
        let hidden = Name::from_labels([&b"x\x03sbx\x04test"[..]]).unwrap();
        let others = ["test", "example.com", "sbx.test.example", "xsbx.test"].map(dns_name);
        for name in others.into_iter().chain([Name::root(), hidden]) {
            let answer = ask(name.clone(), RecordType::A);
            assert_eq!(
                (answer.response_code, answer.answers.len()),
                (ResponseCode::Refused, 0),
                "{name}"
            );
        }
    }
}
