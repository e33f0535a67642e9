use super::*;
use crate::dns::test_server::{TestServer, alias, from_records, leads, reply_to, wire};

fn resolver(server: &TestServer) -> Resolver {
    Resolver::with(Servers::Fixed(Arc::new(vec![server.address])), PathBuf::from("/nonexistent/hosts"))
}

async fn lookup(resolver: &Resolver, name: &str) -> Result<Vec<String>, LookupError> {
    let found = resolver.lookup(&name.parse().unwrap()).await?;
    Ok(found.iter().map(IpAddr::to_string).collect())
}

#[tokio::test]
async fn a_name_leads_to_addresses_of_both_families_and_is_asked_for_once() {
    let server = TestServer::with(vec![
        leads("a.example", "203.0.113.7", 60),
        leads("a.example", "203.0.113.7", 60),
        leads("a.example", "2001:db8::1", 60),
        leads("a.example", "203.0.113.8", 60),
    ])
    .await;
    let resolver = resolver(&server);
    for _ in 0..3 {
        assert_eq!(lookup(&resolver, "A.example").await.unwrap(), ["203.0.113.7", "203.0.113.8", "2001:db8::1"]);
    }
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn equal_lookups_at_once_are_one_also_when_the_first_gives_up() {
    let server = TestServer::with(vec![leads("a.example", "203.0.113.7", 60)]).await;
    let resolver = resolver(&server);
    let name: DomainName = "a.example".parse().unwrap();
    let mut first = Box::pin(resolver.lookup(&name));
    assert!(futures::poll!(&mut first).is_pending());
    let mut second = Box::pin(resolver.lookup(&name));
    assert!(futures::poll!(&mut second).is_pending());
    assert_eq!(lock(&resolver.0.in_flight).len(), 1);
    drop(first);
    assert_eq!(second.await.unwrap().len(), 1);
    assert_eq!(server.asked().len(), 2);
    assert!(lock(&resolver.0.in_flight).is_empty());
}

#[tokio::test]
async fn aliases_are_followed_inside_an_answer_and_beyond_it() {
    let records = vec![
        alias("a.example", "b.example"),
        alias("b.example", "c.example"),
        leads("c.example", "203.0.113.7", 60),
        leads("other.example", "198.51.100.1", 60),
    ];
    let step_by_step = TestServer::with(records.clone()).await;
    assert_eq!(lookup(&resolver(&step_by_step), "a.example").await.unwrap(), ["203.0.113.7"]);
    // All at once, in any order, with something in it that nobody asked for.
    let whole = TestServer::start(move |query, _| {
        let mut reply = reply_to(query, code::NO_ERROR);
        reply.answers.clone_from(&records);
        reply.answers.reverse();
        Some(reply.write())
    })
    .await;
    assert_eq!(lookup(&resolver(&whole), "a.example").await.unwrap(), ["203.0.113.7"]);
}

#[tokio::test]
async fn aliases_in_a_circle_come_to_an_end() {
    let server = TestServer::with(vec![alias("a.example", "b.example"), alias("b.example", "a.example")]).await;
    let error = lookup(&resolver(&server), "a.example").await.unwrap_err();
    assert!(matches!(&error, LookupError::Failed(why) if why.contains("aliases")), "{error:?}");
    assert!(server.asked().len() <= 2 * (MOST_ALIASES + 1));
}

#[tokio::test]
async fn a_name_that_is_not_there_is_remembered_and_a_failure_is_not() {
    let missing = TestServer::with(vec![]).await;
    let resolver_of_missing = resolver(&missing);
    for _ in 0..2 {
        assert_eq!(lookup(&resolver_of_missing, "a.example").await, Err(LookupError::NotFound));
    }
    assert_eq!(missing.asked().len(), 2);
    let failing = TestServer::start(|query, _| Some(reply_to(query, code::SERVER_FAILURE).write())).await;
    let resolver_of_failing = resolver(&failing);
    for _ in 0..2 {
        assert!(matches!(lookup(&resolver_of_failing, "a.example").await, Err(LookupError::Failed(_))));
    }
    assert_eq!(failing.asked().len(), 8);
}

#[tokio::test]
async fn a_name_without_addresses_is_there_and_leads_nowhere() {
    let server = TestServer::with(vec![crate::dns::test_server::record("a.example", kind::TXT, b"\x01a")]).await;
    let resolver = resolver(&server);
    assert!(resolver.find(&"a.example".parse().unwrap()).await.unwrap().addresses.is_empty());
    assert_eq!(lookup(&resolver, "a.example").await, Err(LookupError::NotFound));
}

#[tokio::test]
async fn one_family_is_enough_when_the_other_fails() {
    let server = TestServer::start(|query, _| {
        let is_v4 = query.question.as_ref().is_some_and(|question| question.kind == kind::A);
        let reply = if is_v4 {
            from_records(query, &[leads("a.example", "203.0.113.7", 60)])
        } else {
            reply_to(query, code::SERVER_FAILURE)
        };
        Some(reply.write())
    })
    .await;
    let found = resolver(&server).find(&"a.example".parse().unwrap()).await.unwrap();
    assert_eq!(found.addresses.len(), 1);
    assert!(found.until <= Instant::now() + Duration::from_secs(SHORT_LIFE.into()));
}

#[tokio::test]
async fn the_hosts_file_comes_first_and_its_changes_count_at_once() {
    let server = TestServer::with(vec![leads("a.example", "203.0.113.7", 60)]).await;
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    let resolver = Resolver::with(Servers::Fixed(Arc::new(vec![server.address])), hosts.clone());
    assert_eq!(lookup(&resolver, "a.example").await.unwrap(), ["203.0.113.7"]);
    std::fs::write(&hosts, "192.0.2.1 a.example\n").unwrap();
    assert_eq!(lookup(&resolver, "a.example").await.unwrap(), ["192.0.2.1"]);
    std::fs::remove_file(&hosts).unwrap();
    assert_eq!(lookup(&resolver, "a.example").await.unwrap(), ["203.0.113.7"]);
}

#[tokio::test]
async fn a_life_is_neither_nothing_nor_for_ever() {
    let server =
        TestServer::with(vec![leads("a.example", "203.0.113.7", 0), leads("b.example", "::ffff:10.0.0.1", u32::MAX)])
            .await;
    let resolver = resolver(&server);
    let now = Instant::now();
    let short = resolver.find(&"a.example".parse().unwrap()).await.unwrap();
    assert!(short.until >= now + Duration::from_secs(1));
    let long = resolver.find(&"b.example".parse().unwrap()).await.unwrap();
    assert!(long.until <= Instant::now() + Duration::from_secs(LONGEST_LIFE.into()));
    // An IPv4 address in disguise is judged as what it is.
    assert_eq!(long.addresses.to_vec(), ["10.0.0.1".parse::<IpAddr>().unwrap()]);
    assert_eq!(server.asked().iter().filter(|(question, _)| question.name == wire("b.example")).count(), 2);
}

#[test]
fn servers_that_cannot_be_are_refused() {
    for bad in ["192.0.2.1:0", "0.0.0.0:53", "[::]:53"] {
        let settings = GatewaySettings { dns_servers: vec![bad.parse().unwrap()], ..GatewaySettings::default() };
        assert_eq!(Resolver::new(&settings).unwrap_err().field(), Some("dns_servers"), "{bad}");
    }
    Resolver::new(&GatewaySettings::default()).unwrap();
}
