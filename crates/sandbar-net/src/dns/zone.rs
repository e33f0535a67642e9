//! A domain whose every name leads to one place.

use std::net::IpAddr;

use hickory_proto::{
    op::{Query as Question, ResponseCode},
    rr::{Name, RecordType},
};
use sandbar_core::DomainName;

use super::exchange::{Asked, Reply, Role, address_record};

/// How long others may remember it: a host that comes back elsewhere is found soon.
const LIFE: u32 = 60;

/// A domain, and where it and everything below it leads.
#[derive(Clone, Debug)]
pub struct Zone {
    /// None if it were no name, which a `DomainName` always is: then nothing is within it.
    domain: Option<Name>,
    addresses: Vec<IpAddr>,
}

impl Zone {
    pub fn new(domain: &DomainName, addresses: Vec<IpAddr>) -> Self {
        Self { domain: Name::from_labels(domain.as_str().split('.').map(str::as_bytes)).ok(), addresses }
    }

    /// Answers a query about it; others are refused. No other server is ever asked.
    pub(super) fn answer(&self, query: &[u8], most: usize) -> Option<Vec<u8>> {
        let (query, reply) = match Asked::read(query)? {
            Asked::Settled(query, reply) => (query, reply),
            Asked::Open(query, question) => (query, self.tell(&question)),
        };
        query.answer(reply, Role::Authoritative, most)
    }

    fn tell(&self, question: &Question) -> Reply {
        if !self.domain.as_ref().is_some_and(|domain| domain.zone_of(question.name())) {
            return Reply::of(ResponseCode::Refused);
        }
        let is_asked_for = |address: &&IpAddr| match question.query_type() {
            RecordType::A => address.is_ipv4(),
            RecordType::AAAA => address.is_ipv6(),
            _ => false,
        };
        let record = |address: &IpAddr| address_record(question, *address, LIFE);
        Reply { code: ResponseCode::NoError, answers: self.addresses.iter().filter(is_asked_for).map(record).collect() }
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::Message;
    use sandbar_testing::name_server::{dns_name, leads};

    use super::*;
    use crate::dns::exchange::MOST_IN_DATAGRAM;

    fn ask(name: Name, kind: RecordType) -> Message {
        let zone = Zone::new(&"sbx.test".parse().unwrap(), vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]);
        let mut query = Message::query();
        query.metadata.recursion_desired = true;
        query.add_query(Question::query(name, kind));
        let answer = Message::from_vec(&zone.answer(&query.to_vec().unwrap(), MOST_IN_DATAGRAM).unwrap()).unwrap();
        assert_eq!((answer.id, answer.authoritative, answer.recursion_available), (query.id, true, false));
        assert!(answer.recursion_desired);
        answer
    }

    #[test]
    fn the_domain_and_everything_below_it_lead_to_its_addresses() {
        for name in ["sbx.test", "api.sbx.test", "49983-i1a2.sbx.test", "a.b.Sbx.TEST"] {
            assert_eq!(ask(dns_name(name), RecordType::A).answers, [leads(name, "127.0.0.1", LIFE)], "{name}");
            assert_eq!(ask(dns_name(name), RecordType::AAAA).answers, [leads(name, "::1", LIFE)], "{name}");
            // The name is there, and has nothing of that kind.
            let other = ask(dns_name(name), RecordType::MX);
            assert_eq!((other.response_code, other.answers.len()), (ResponseCode::NoError, 0), "{name}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        // A label that looks like the end of a name is one label all the same.
        let hidden = Name::from_labels([&b"x\x03sbx\x04test"[..]]).unwrap();
        let others = ["test", "example.com", "sbx.test.example", "xsbx.test"].map(dns_name);
        for name in others.into_iter().chain([Name::root(), hidden]) {
            let answer = ask(name.clone(), RecordType::A);
            assert_eq!((answer.response_code, answer.answers.len()), (ResponseCode::Refused, 0), "{name}");
        }
    }
}
