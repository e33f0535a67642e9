//! A domain whose every name leads to one place.

use std::net::IpAddr;

use sandbar_core::DomainName;

use super::{
    exchange::{Asked, Reply},
    message::{Question, code, flag},
    name::WireName,
    record::{Record, kind},
};

/// How long others may remember it: a host that comes back elsewhere is found soon.
const LIFE: u32 = 60;

/// A domain, and where it and everything below it leads.
#[derive(Clone, Debug)]
pub struct Zone {
    domain: WireName,
    addresses: Vec<IpAddr>,
}

impl Zone {
    pub fn new(domain: &DomainName, addresses: Vec<IpAddr>) -> Self {
        Self { domain: WireName::from(domain), addresses }
    }

    /// Answers a query about it; others are refused. Nobody else is ever asked.
    pub(super) fn answer(&self, query: &[u8], most: usize) -> Option<Vec<u8>> {
        let (query, reply) = match Asked::read(query)? {
            Asked::Settled(query, reply) => (query, reply),
            Asked::Open(query, question) => (query, self.tell(&question)),
        };
        Some(query.answer(reply, flag::AUTHORITATIVE, most))
    }

    fn tell(&self, question: &Question) -> Reply {
        if !question.name.is_within(&self.domain) {
            return Reply::of(code::REFUSED);
        }
        let is_asked_for = |address: &&IpAddr| match question.kind {
            kind::A => address.is_ipv4(),
            kind::AAAA => address.is_ipv6(),
            _ => false,
        };
        let record = |address: &IpAddr| Record::of_address(question.name.clone(), *address, LIFE);
        Reply { code: code::NO_ERROR, answers: self.addresses.iter().filter(is_asked_for).map(record).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::{
        exchange::MOST_IN_DATAGRAM,
        message::Message,
        test_server::{leads, wire},
    };

    fn ask(name: &str, kind: u16) -> Message {
        let zone = Zone::new(&"sbx.test".parse().unwrap(), vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]);
        let query = Message::query(7, Question::about(wire(name), kind)).write();
        let answer = Message::read(&zone.answer(&query, MOST_IN_DATAGRAM).unwrap()).unwrap();
        let expected = flag::RESPONSE | flag::AUTHORITATIVE | flag::RECURSION_DESIRED;
        assert_eq!((answer.head.id, answer.head.flags & !flag::CODE), (7, expected));
        answer
    }

    #[test]
    fn the_domain_and_everything_below_it_lead_to_its_addresses() {
        for name in ["sbx.test", "api.sbx.test", "49983-i1a2.sbx.test", "a.b.Sbx.TEST"] {
            assert_eq!(ask(name, kind::A).answers, [leads(name, "127.0.0.1", LIFE)], "{name}");
            assert_eq!(ask(name, kind::AAAA).answers, [leads(name, "::1", LIFE)], "{name}");
            // The name is there, and has nothing of that kind.
            let other = ask(name, kind::MX);
            assert_eq!((other.head.code(), other.answers.len()), (code::NO_ERROR, 0), "{name}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["test", "example.com", "sbx.test.example", "xsbx.test"] {
            let answer = ask(name, kind::A);
            assert_eq!((answer.head.code(), answer.answers.len()), (code::REFUSED, 0), "{name}");
        }
    }
}
