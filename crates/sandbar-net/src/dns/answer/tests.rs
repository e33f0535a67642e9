use std::{path::PathBuf, sync::Arc};

use proptest::prelude::*;

use super::*;
use crate::dns::{
    message::{Extension, Head, Message},
    name::WireName,
    servers::Servers,
    test_server::{TestServer, alias, leads, record, wire},
};

/// A session, and the world it asks about.
struct World {
    server: TestServer,
    resolver: Resolver,
    names: KnownNames,
    rules: Rules,
}

impl World {
    async fn new(policy: &str, records: Vec<Record>) -> Self {
        let server = TestServer::with(records).await;
        let servers = Servers::Fixed(Arc::new(vec![server.address]));
        let resolver = Resolver::with(servers, PathBuf::from("/nonexistent/hosts"));
        Self { server, resolver, names: KnownNames::default(), rules: Rules::new(policy.parse().unwrap()) }
    }

    async fn send(&self, query: &[u8], most: usize) -> Option<Answer> {
        answer(query, &self.rules, &self.resolver, &self.names, &[], most).await
    }

    async fn ask(&self, name: &str, kind: u16) -> (Message, Option<NetworkDecision>) {
        let answer = self.send(&Message::query(7, Question::about(wire(name), kind)).write(), 1232).await.unwrap();
        let message = Message::read(&answer.message).unwrap();
        let expected = flag::RESPONSE | flag::RECURSION_AVAILABLE | flag::RECURSION_DESIRED;
        assert_eq!((message.head.id, message.head.flags & !flag::CODE), (7, expected));
        assert_eq!(message.question, Some(Question::about(wire(name), kind)));
        (message, answer.decision)
    }
}

fn verdict(decision: Option<&NetworkDecision>) -> Option<(NetworkVerdict, &str)> {
    decision.map(|decision| {
        assert_eq!((decision.protocol, decision.port, decision.address), (NetworkProtocol::Dns, 53, None));
        (decision.verdict, decision.host.as_deref().unwrap())
    })
}

#[tokio::test]
async fn an_allowed_name_is_told_and_remembered() {
    let records = vec![leads("a.example", "203.0.113.7", 600), leads("a.example", "2001:db8::1", 30)];
    let world = World::new("allow=a.example", records).await;
    let (message, decision) = world.ask("a.example", kind::A).await;
    assert_eq!(message.head.code(), code::NO_ERROR);
    assert_eq!(message.answers.len(), 1);
    assert_eq!(message.answers[0].address(), Some("203.0.113.7".parse().unwrap()));
    assert!((1..=30).contains(&message.answers[0].ttl));
    assert_eq!(verdict(decision.as_ref()), Some((NetworkVerdict::Allow, "a.example")));
    assert_eq!(world.names.names_of("203.0.113.7".parse().unwrap()), ["a.example".parse().unwrap()]);
    assert_eq!(world.names.names_of("2001:db8::1".parse().unwrap()), []);
    let (message, _) = world.ask("a.example", kind::AAAA).await;
    assert_eq!(message.answers[0].address(), Some("2001:db8::1".parse().unwrap()));
}

/// Byte for byte, with what `dig` sends: a flag and a cookie that mean nothing here.
#[tokio::test]
async fn an_answer_is_written_as_clients_expect_it() {
    let world = World::new("full", vec![leads("example.com", "203.0.113.7", 1)]).await;
    let query = b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01\x07example\x03com\0\0\x01\0\x01\
        \0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0a\0\x08cookie!!";
    let expected = b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\x01\x07example\x03com\0\0\x01\0\x01\
        \xc0\x0c\0\x01\0\x01\0\0\0\x01\0\x04\xcb\0\x71\x07\0\0\x29\x04\xd0\0\0\0\0\0\0";
    assert_eq!(world.send(query, 1232).await.unwrap().message, expected);
}

#[tokio::test]
async fn a_denied_name_does_not_exist_and_nobody_is_asked() {
    let world = World::new("allow=a.example", vec![leads("evil.example", "203.0.113.7", 60)]).await;
    for kind in [kind::A, kind::AAAA, kind::TXT, kind::HTTPS, 255, 252] {
        let (message, decision) = world.ask("data.evil.example", kind).await;
        assert_eq!((message.head.code(), message.answers.len()), (code::NO_SUCH_NAME, 0));
        assert_eq!(verdict(decision.as_ref()), Some((NetworkVerdict::Deny, "data.evil.example")));
    }
    assert_eq!(world.server.asked(), []);
}

#[tokio::test]
async fn a_name_that_leads_inside_leads_nowhere() {
    let records = vec![
        leads("inside.example", "10.0.0.1", 60),
        leads("inside.example", "::1", 60),
        leads("both.example", "169.254.169.254", 60),
        leads("both.example", "203.0.113.7", 60),
    ];
    let world = World::new("full", records).await;
    for kind in [kind::A, kind::AAAA] {
        let (message, decision) = world.ask("inside.example", kind).await;
        assert_eq!((message.head.code(), message.answers.len()), (code::NO_ERROR, 0));
        assert_eq!(verdict(decision.as_ref()), Some((NetworkVerdict::Deny, "inside.example")));
        assert!(decision.unwrap().reason.contains("leads to"));
    }
    assert_eq!(world.names.names_of("10.0.0.1".parse().unwrap()), []);
    let (message, decision) = world.ask("both.example", kind::A).await;
    assert_eq!(message.answers.iter().map(Record::address).collect::<Vec<_>>(), [Some("203.0.113.7".parse().unwrap())]);
    assert_eq!(verdict(decision.as_ref()).unwrap().0, NetworkVerdict::Allow);
}

#[tokio::test]
async fn names_that_are_not_there_and_servers_that_fail_are_told_as_such() {
    let world = World::new("full", vec![leads("a.example", "203.0.113.7", 60)]).await;
    assert_eq!(world.ask("missing.example", kind::A).await.0.head.code(), code::NO_SUCH_NAME);
    let (message, _) = world.ask("a.example", kind::AAAA).await;
    assert_eq!((message.head.code(), message.answers.len()), (code::NO_ERROR, 0));
    let resolver = Resolver::with(Servers::Fixed(Arc::default()), PathBuf::from("/nonexistent/hosts"));
    let lost = World { resolver, ..world };
    for kind in [kind::A, kind::MX] {
        assert_eq!(lost.ask("a.example", kind).await.0.head.code(), code::SERVER_FAILURE);
    }
}

#[tokio::test]
async fn localhost_is_the_session_itself_and_nothing_is_decided() {
    let world = World::new("none", vec![]).await;
    for name in ["localhost", "app.localhost"] {
        for (kind, address) in [(kind::A, "127.0.0.1"), (kind::AAAA, "::1")] {
            let (message, decision) = world.ask(name, kind).await;
            assert_eq!(message.answers, [leads(name, address, 60)]);
            assert_eq!(decision, None);
        }
    }
    assert_eq!(world.ask("notlocalhost", kind::A).await.0.head.code(), code::NO_SUCH_NAME);
}

#[tokio::test]
async fn other_records_of_allowed_names_are_told_without_addresses() {
    let mx = [b"\0\x0a", wire("mx.example").as_bytes()].concat();
    let records = vec![
        record("a.example", kind::MX, &mx),
        record("a.example", kind::TXT, b"\x02hi"),
        alias("b.example", "a.example"),
        leads("a.example", "203.0.113.7", 60),
    ];
    let world = World::new("allow=a.example,b.example", records).await;
    let (message, decision) = world.ask("a.example", kind::MX).await;
    assert_eq!((message.answers[0].data.clone(), message.answers[0].ttl), (mx, 60));
    assert_eq!(verdict(decision.as_ref()).unwrap().0, NetworkVerdict::Allow);
    assert_eq!(world.ask("a.example", kind::TXT).await.0.answers[0].data, b"\x02hi");
    assert_eq!(world.ask("b.example", kind::TXT).await.0.answers[0].alias_of(), Some(wire("a.example")));
    assert_eq!(world.ask("missing.b.example", kind::TXT).await.0.head.code(), code::NO_SUCH_NAME);
    let (message, _) = world.ask("a.example", kind::HTTPS).await;
    assert_eq!((message.head.code(), message.answers.len()), (code::NO_ERROR, 0));
    for kind in [255, 252, 43, kind::PTR, kind::OPT] {
        let (message, decision) = world.ask("a.example", kind).await;
        assert_eq!(message.head.code(), code::REFUSED, "{kind}");
        assert_eq!(verdict(decision.as_ref()).unwrap().0, NetworkVerdict::Deny);
    }
    assert!(world.server.asked().iter().all(|(question, _)| ![kind::HTTPS, 255].contains(&question.kind)));
}

#[tokio::test]
async fn addresses_have_no_names() {
    let closed = World::new("allow=a.example", vec![]).await;
    let open = World::new("full", vec![]).await;
    for name in ["7.113.0.203.in-addr.arpa", "1.0.0.ip6.arpa"] {
        let (message, decision) = closed.ask(name, kind::PTR).await;
        assert_eq!((message.head.code(), decision), (code::NO_SUCH_NAME, None));
        let (message, decision) = open.ask(name, kind::PTR).await;
        assert_eq!((message.head.code(), message.answers.len(), decision), (code::NO_ERROR, 0, None));
    }
    assert_eq!(open.server.asked(), []);
}

#[tokio::test]
async fn what_is_no_good_query_gets_an_error_or_nothing() {
    let world = World::new("full", vec![]).await;
    let good = Message::query(7, Question::about(wire("a.example"), kind::A)).write();
    let with = |place: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[place] = value;
        bytes
    };
    let class_of_chaos = with(good.len() - 1, 3);
    for (query, expected) in [
        (with(2, 0x80), None),
        (good[..11].to_vec(), None),
        (with(2, 0x28), Some(code::NOT_IMPLEMENTED)),
        (with(5, 0), Some(code::FORMAT_ERROR)),
        (with(5, 2), Some(code::FORMAT_ERROR)),
        (with(2, 0x03), Some(code::FORMAT_ERROR)),
        (good[..good.len() - 1].to_vec(), Some(code::FORMAT_ERROR)),
        ([good.as_slice(), b"tail"].concat(), Some(code::FORMAT_ERROR)),
        (class_of_chaos, Some(code::REFUSED)),
    ] {
        let answer = world.send(&query, 1232).await;
        let code = answer.as_ref().map(|answer| Head::read(&answer.message).unwrap().code());
        assert_eq!(code, expected, "{query:?}");
        assert!(answer.is_none_or(|answer| answer.decision.is_none() && answer.message[..2] == [0, 7]));
    }
    assert_eq!(world.server.asked(), []);
}

#[tokio::test]
async fn a_name_no_host_can_have_does_not_exist() {
    let world = World::new("full", vec![]).await;
    for name in [&b"\0"[..], b"\x09a.example\0", b"\x01 \0", b"\x0a0x7f000001\0"] {
        let name = WireName::read(name, &mut 0).unwrap();
        let query = Message::query(7, Question::about(name, kind::A)).write();
        let answer = world.send(&query, 1232).await.unwrap();
        assert_eq!(Head::read(&answer.message).unwrap().code(), code::NO_SUCH_NAME);
        assert_eq!(answer.decision.unwrap().verdict, NetworkVerdict::Deny);
    }
}

#[tokio::test]
async fn the_case_of_a_question_comes_back() {
    let world = World::new("allow=a.example", vec![leads("a.example", "203.0.113.7", 60)]).await;
    let name = WireName::read(b"\x01A\x07eXaMpLe\0", &mut 0).unwrap();
    let answer = world.send(&Message::query(7, Question::about(name.clone(), kind::A)).write(), 1232).await.unwrap();
    let message = Message::read(&answer.message).unwrap();
    assert_eq!(message.question.unwrap().name.as_bytes(), name.as_bytes());
    assert_eq!(message.answers[0].name.as_bytes(), name.as_bytes());
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_cut() {
    let records = (0..40).map(|number| leads("a.example", &format!("203.0.113.{number}"), 60)).collect();
    let world = World::new("allow=a.example", records).await;
    let mut query = Message::query(7, Question::about(wire("a.example"), kind::A));
    for (extension, most, count) in
        [(None, 1232, 0), (Some(512), 1232, 0), (Some(4096), 1232, 40), (Some(4096), 600, 0), (None, 65535, 40)]
    {
        query.extension = extension.map(|most| Extension { most, version: 0, upper_code: 0 });
        let answer = world.send(&query.write(), most).await.unwrap();
        assert!(answer.message.len() <= most);
        assert_eq!(u16::from_be_bytes([answer.message[6], answer.message[7]]), count, "{extension:?} {most}");
        let is_cut = Head::read(&answer.message).unwrap().has(flag::TRUNCATED);
        assert_eq!(is_cut, count == 0, "{extension:?} {most}");
        if !is_cut {
            let own = Extension { most: 1232, version: 0, upper_code: 0 };
            assert_eq!(Message::read(&answer.message).unwrap().extension, extension.map(|_| own));
        }
    }
}

#[tokio::test]
async fn an_extension_of_another_version_is_said_to_be_bad() {
    let world = World::new("full", vec![]).await;
    let mut query = Message::query(7, Question::about(wire("a.example"), kind::A));
    query.extension = Some(Extension { most: 1232, version: 1, upper_code: 0 });
    let message = Message::read(&world.send(&query.write(), 1232).await.unwrap().message).unwrap();
    assert_eq!(message.extension, Some(Extension { most: 1232, version: 0, upper_code: 1 }));
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_not(query in prop::collection::vec(any::<u8>(), 0..100), name in "[a-z]{1,9}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let resolver = Resolver::with(Servers::Fixed(Arc::default()), PathBuf::from("/nonexistent/hosts"));
        let rules = Rules::new("full".parse().unwrap());
        let whole = Message::query(7, Question::about(wire(&name), kind::A)).write();
        for query in [query.clone(), [&whole[..12], &query].concat(), [whole.as_slice(), &query].concat()] {
            let told = runtime.block_on(answer(&query, &rules, &resolver, &KnownNames::default(), &[], 1232));
            if let Some(told) = told {
                prop_assert!(Message::read(&told.message).is_some() && told.message[..2] == query[..2]);
            }
        }
    }
}
