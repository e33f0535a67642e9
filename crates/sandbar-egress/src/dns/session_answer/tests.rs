use std::path::Path;

use hickory_proto::{
    op::{Edns, Header, Message},
    rr::{
        RData,
        rdata::{MX, TXT},
    },
    serialize::binary::{BinDecodable as _, BinDecoder},
};
use proptest::prelude::*;
use sandbar_testing::name_server::{TestNameServer, alias, dns_name, leads, record};

use super::*;

const ID: u16 = 7;

/// A session, and the name server it is resolved with.
struct World {
    server: TestNameServer,
    resolver: Resolver,
    names: KnownNames,
    rules: Rules,
}

impl World {
    async fn new(policy: &str, records: Vec<Record>) -> Self {
        let server = TestNameServer::with(records).await;
        let resolver = resolver(vec![server.address]);
        Self {
            server,
            resolver,
            names: KnownNames::default(),
            rules: Rules::new(policy.parse().unwrap()),
        }
    }

    async fn send(&self, query: &[u8], limit: usize) -> Option<Answer> {
        answer(query, &self.rules, &self.resolver, &self.names, &[], limit).await
    }

    async fn ask(&self, name: &str, kind: RecordType) -> (Message, Option<NetworkDecision>) {
        let answer = self
            .send(&query(dns_name(name), kind).to_vec().unwrap(), 1232)
            .await
            .unwrap();
        let message = Message::from_vec(&answer.message).unwrap();
        assert_eq!(message.metadata.id, ID);
        assert!(message.recursion_available && message.recursion_desired && !message.authoritative);
        assert_eq!(message.queries, [Question::query(dns_name(name), kind)]);
        (message, answer.decision)
    }
}

fn resolver(servers: Vec<std::net::SocketAddr>) -> Resolver {
    Resolver::with_servers_and_hosts(servers, Path::new("/nonexistent/hosts"))
}

fn query(name: Name, kind: RecordType) -> Message {
    let mut query = Message::query();
    query.metadata.id = ID;
    query.metadata.recursion_desired = true;
    query.add_query(Question::query(name, kind));
    query
}

fn head(message: &[u8]) -> Header {
    Header::read(&mut BinDecoder::new(message)).unwrap()
}

fn edns(limit: u16, version: u8) -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(limit).set_version(version);
    edns
}

fn verdict(decision: Option<&NetworkDecision>) -> Option<(NetworkVerdict, &str)> {
    decision.map(|decision| {
        assert_eq!(
            (decision.protocol, decision.port, decision.address),
            (NetworkProtocol::Dns, 53, None)
        );
        (decision.verdict, decision.host.as_deref().unwrap())
    })
}

#[tokio::test]
async fn allowed_name_is_answered_and_remembered() {
    let records = vec![
        leads("a.example", "203.0.113.7", 600),
        leads("a.example", "2001:db8::1", 30),
    ];
    let world = World::new("allow=a.example", records).await;
    let (message, decision) = world.ask("a.example", RecordType::A).await;
    assert_eq!(message.response_code, ResponseCode::NoError);
    assert_eq!(message.answers.len(), 1);
    assert_eq!(
        message.answers[0].data.ip_addr(),
        Some("203.0.113.7".parse().unwrap())
    );
    assert!((1..=30).contains(&message.answers[0].ttl));
    assert_eq!(
        verdict(decision.as_ref()),
        Some((NetworkVerdict::Allow, "a.example"))
    );
    assert_eq!(
        world.names.names_of("203.0.113.7".parse().unwrap()),
        ["a.example".parse().unwrap()]
    );
    assert_eq!(world.names.names_of("2001:db8::1".parse().unwrap()), []);
    let (message, _) = world.ask("a.example", RecordType::AAAA).await;
    assert_eq!(
        message.answers[0].data.ip_addr(),
        Some("2001:db8::1".parse().unwrap())
    );
}

/// Compares every byte, for a query of `dig` with a flag and a cookie that are ignored.
#[tokio::test]
async fn answer_has_the_expected_encoding() {
    let world = World::new("full", vec![leads("example.com", "203.0.113.7", 1)]).await;
    let query = b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01\x07example\x03com\0\0\x01\0\x01\
        \0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0a\0\x08cookie!!";
    let expected = b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\x01\x07example\x03com\0\0\x01\0\x01\
        \xc0\x0c\0\x01\0\x01\0\0\0\x01\0\x04\xcb\0\x71\x07\0\0\x29\x04\xd0\0\0\0\0\0\0";
    assert_eq!(world.send(query, 1232).await.unwrap().message, expected);
}

#[tokio::test]
async fn denied_name_is_nxdomain_and_not_looked_up() {
    let world = World::new(
        "allow=a.example",
        vec![leads("evil.example", "203.0.113.7", 60)],
    )
    .await;
    for kind in [
        RecordType::A,
        RecordType::AAAA,
        RecordType::TXT,
        RecordType::HTTPS,
        RecordType::ANY,
        RecordType::AXFR,
    ] {
        let (message, decision) = world.ask("data.evil.example", kind).await;
        assert_eq!(
            (message.response_code, message.answers.len()),
            (ResponseCode::NXDomain, 0)
        );
        assert_eq!(
            verdict(decision.as_ref()),
            Some((NetworkVerdict::Deny, "data.evil.example"))
        );
    }
    assert_eq!(world.server.asked(), []);
}

#[tokio::test]
async fn name_with_only_private_addresses_is_denied() {
    let records = vec![
        leads("inside.example", "10.0.0.1", 60),
        leads("inside.example", "::1", 60),
        leads("both.example", "169.254.169.254", 60),
        leads("both.example", "203.0.113.7", 60),
    ];
    let world = World::new("full", records).await;
    for kind in [RecordType::A, RecordType::AAAA] {
        let (message, decision) = world.ask("inside.example", kind).await;
        assert_eq!(
            (message.response_code, message.answers.len()),
            (ResponseCode::NoError, 0)
        );
        assert_eq!(
            verdict(decision.as_ref()),
            Some((NetworkVerdict::Deny, "inside.example"))
        );
        assert!(decision.unwrap().reason.contains("leads to"));
    }
    assert_eq!(world.names.names_of("10.0.0.1".parse().unwrap()), []);
    let (message, decision) = world.ask("both.example", RecordType::A).await;
    let addresses: Vec<IpAddr> = message
        .answers
        .iter()
        .filter_map(|record| record.data.ip_addr())
        .collect();
    assert_eq!(addresses, ["203.0.113.7".parse::<IpAddr>().unwrap()]);
    assert_eq!(verdict(decision.as_ref()).unwrap().0, NetworkVerdict::Allow);
}

#[tokio::test]
async fn missing_names_and_failing_servers_are_reported() {
    let world = World::new("full", vec![leads("a.example", "203.0.113.7", 60)]).await;
    assert_eq!(
        world
            .ask("missing.example", RecordType::A)
            .await
            .0
            .response_code,
        ResponseCode::NXDomain
    );
    let (message, _) = world.ask("a.example", RecordType::AAAA).await;
    assert_eq!(
        (message.response_code, message.answers.len()),
        (ResponseCode::NoError, 0)
    );
    let lost = World {
        resolver: resolver(Vec::new()),
        ..world
    };
    for kind in [RecordType::A, RecordType::MX] {
        assert_eq!(
            lost.ask("a.example", kind).await.0.response_code,
            ResponseCode::ServFail
        );
    }
}

#[tokio::test]
async fn localhost_is_the_loopback_of_the_session() {
    let world = World::new("none", vec![]).await;
    for name in ["localhost", "app.localhost"] {
        for (kind, address) in [(RecordType::A, "127.0.0.1"), (RecordType::AAAA, "::1")] {
            let (message, decision) = world.ask(name, kind).await;
            assert_eq!(message.answers, [leads(name, address, 60)]);
            assert_eq!(decision, None);
        }
    }
    assert_eq!(
        world
            .ask("notlocalhost", RecordType::A)
            .await
            .0
            .response_code,
        ResponseCode::NXDomain
    );
}

#[tokio::test]
async fn other_record_types_have_no_addresses() {
    let mx = RData::MX(MX::new(10, dns_name("mx.example")));
    let text = RData::TXT(TXT::new(vec!["hi".to_owned()]));
    let records = vec![
        record("a.example", mx.clone()),
        record("a.example", text.clone()),
        alias("b.example", "a.example"),
        leads("a.example", "203.0.113.7", 60),
    ];
    let world = World::new("allow=a.example,b.example", records).await;
    let (message, decision) = world.ask("a.example", RecordType::MX).await;
    assert_eq!(
        (&message.answers[0].data, message.answers[0].ttl),
        (&mx, 60)
    );
    assert_eq!(verdict(decision.as_ref()).unwrap().0, NetworkVerdict::Allow);
    assert_eq!(
        world.ask("a.example", RecordType::TXT).await.0.answers[0].data,
        text
    );
    let (message, _) = world.ask("b.example", RecordType::TXT).await;
    assert_eq!(message.answers, [alias("b.example", "a.example")]);
    assert!(message.answers.iter().all(|record| record.ttl <= MAX_TTL));
    let (message, _) = world.ask("missing.b.example", RecordType::TXT).await;
    assert_eq!(message.response_code, ResponseCode::NXDomain);
    let (message, _) = world.ask("a.example", RecordType::HTTPS).await;
    assert_eq!(
        (message.response_code, message.answers.len()),
        (ResponseCode::NoError, 0)
    );
    for kind in [
        RecordType::ANY,
        RecordType::AXFR,
        RecordType::DS,
        RecordType::PTR,
        RecordType::Unknown(999),
    ] {
        let (message, decision) = world.ask("a.example", kind).await;
        assert_eq!(message.response_code, ResponseCode::Refused, "{kind}");
        assert_eq!(verdict(decision.as_ref()).unwrap().0, NetworkVerdict::Deny);
    }
    assert!(world.server.asked().iter().all(|(question, _)| {
        ![RecordType::HTTPS, RecordType::ANY].contains(&question.query_type())
    }));
}

#[tokio::test]
async fn reverse_lookups_are_empty() {
    let closed = World::new("allow=a.example", vec![]).await;
    let open = World::new("full", vec![]).await;
    for name in ["7.113.0.203.in-addr.arpa", "1.0.0.ip6.arpa"] {
        let (message, decision) = closed.ask(name, RecordType::PTR).await;
        assert_eq!(
            (message.response_code, decision),
            (ResponseCode::NXDomain, None)
        );
        let (message, decision) = open.ask(name, RecordType::PTR).await;
        assert_eq!(
            (message.response_code, message.answers.len(), decision),
            (ResponseCode::NoError, 0, None)
        );
    }
    assert_eq!(open.server.asked(), []);
}

#[tokio::test]
async fn malformed_query_gets_an_error_or_nothing() {
    let world = World::new("full", vec![]).await;
    let good = query(dns_name("a.example"), RecordType::A)
        .to_vec()
        .unwrap();
    let with = |place: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[place] = value;
        bytes
    };
    let class_of_chaos = with(good.len() - 1, 3);
    for (query, expected) in [
        (with(2, 0x80), None),
        (good[..11].to_vec(), None),
        (with(2, 0x28), Some(ResponseCode::NotImp)),
        (with(5, 0), Some(ResponseCode::FormErr)),
        (with(5, 2), Some(ResponseCode::FormErr)),
        (with(4, 255), Some(ResponseCode::FormErr)),
        (with(7, 1), Some(ResponseCode::FormErr)),
        (with(9, 1), Some(ResponseCode::FormErr)),
        (with(11, 1), Some(ResponseCode::FormErr)),
        (with(12, 64), Some(ResponseCode::FormErr)),
        (with(2, 0x03), Some(ResponseCode::FormErr)),
        (good[..good.len() - 1].to_vec(), Some(ResponseCode::FormErr)),
        (
            [good.as_slice(), b"tail"].concat(),
            Some(ResponseCode::FormErr),
        ),
        (class_of_chaos, Some(ResponseCode::Refused)),
    ] {
        let answer = world.send(&query, 1232).await;
        let code = answer
            .as_ref()
            .map(|answer| head(&answer.message).response_code);
        assert_eq!(code, expected, "{query:?}");
        assert!(
            answer.is_none_or(|answer| answer.decision.is_none() && answer.message[..2] == [0, 7])
        );
    }
    assert_eq!(world.server.asked(), []);
}

#[tokio::test]
async fn invalid_host_name_is_nxdomain() {
    let world = World::new("full", vec![]).await;
    let labels: [&[&[u8]]; 5] = [
        &[],
        &[b"a.example"],
        &[b" "],
        &[b"0x7f000001"],
        &[b"a\xc3\xbc"],
    ];
    for labels in labels {
        let name = Name::from_labels(labels.iter().copied()).unwrap();
        let query = query(name, RecordType::A).to_vec().unwrap();
        let answer = world.send(&query, 1232).await.unwrap();
        assert_eq!(head(&answer.message).response_code, ResponseCode::NXDomain);
        assert_eq!(answer.decision.unwrap().verdict, NetworkVerdict::Deny);
    }
}

#[tokio::test]
async fn answer_repeats_the_case_of_the_question() {
    let world = World::new(
        "allow=a.example",
        vec![leads("a.example", "203.0.113.7", 60)],
    )
    .await;
    let name = Name::from_labels([&b"A"[..], b"eXaMpLe"]).unwrap();
    let answer = world
        .send(&query(name.clone(), RecordType::A).to_vec().unwrap(), 1232)
        .await
        .unwrap();
    let message = Message::from_vec(&answer.message).unwrap();
    assert!(message.queries[0].name().eq_case(&name));
    assert!(message.answers[0].name.eq_case(&name));
}

#[tokio::test]
async fn long_answer_is_truncated() {
    let records = (0..40)
        .map(|number| leads("a.example", &format!("203.0.113.{number}"), 60))
        .collect();
    let world = World::new("allow=a.example", records).await;
    let mut query = query(dns_name("a.example"), RecordType::A);
    for (extension, limit, count) in [
        (None, 1232, 0),
        (Some(512), 1232, 0),
        (Some(4096), 1232, 40),
        (Some(4096), 600, 0),
        (None, 65535, 40),
    ] {
        query.edns = extension.map(|limit| edns(limit, 0));
        let answer = world.send(&query.to_vec().unwrap(), limit).await.unwrap();
        assert!(answer.message.len() <= limit);
        let head = head(&answer.message);
        assert_eq!(head.counts.answers, count, "{extension:?} {limit}");
        let is_cut = head.truncation;
        assert_eq!(is_cut, count == 0, "{extension:?} {limit}");
        if !is_cut {
            assert_eq!(
                Message::from_vec(&answer.message).unwrap().edns,
                extension.map(|_| edns(1232, 0))
            );
        }
    }
}

#[tokio::test]
async fn unknown_edns_version_is_refused() {
    let world = World::new("full", vec![]).await;
    let mut query = query(dns_name("a.example"), RecordType::A);
    query.edns = Some(edns(1232, 1));
    let message = Message::from_vec(
        &world
            .send(&query.to_vec().unwrap(), 1232)
            .await
            .unwrap()
            .message,
    )
    .unwrap();
    // Code 16 is BADVERS and BADSIG; hickory decodes it as the latter.
    assert_eq!(
        (u16::from(message.response_code), message.version()),
        (ResponseCode::BADVERS.into(), 0)
    );
}

proptest! {
    #[test]
    fn any_bytes_are_handled(query in prop::collection::vec(any::<u8>(), 0..100), name in "[a-z]{1,9}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let resolver = resolver(Vec::new());
        let rules = Rules::new("full".parse().unwrap());
        let whole = self::query(dns_name(&name), RecordType::A).to_vec().unwrap();
        for query in [query.clone(), [&whole[..12], &query].concat(), [whole.as_slice(), &query].concat()] {
            let told = runtime.block_on(answer(&query, &rules, &resolver, &KnownNames::default(), &[], 1232));
            if let Some(told) = told {
                prop_assert!(Message::from_vec(&told.message).is_ok() && told.message[..2] == query[..2]);
            }
        }
    }
}
