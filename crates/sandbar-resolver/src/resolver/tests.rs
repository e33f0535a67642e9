use std::fs;

use hickory_proto::{
    op::{Message, ResponseCode},
    rr::rdata::TXT,
};
use sandbar_testing::name_server::{
    TestNameServer, alias, dns_name, from_records, leads, record, reply_to,
};

use super::*;
use crate::config::ResolvConf;

fn resolver(server: &TestNameServer) -> Resolver {
    Resolver::with_servers_and_hosts(vec![server.address], Path::new("/nonexistent/hosts"))
}

fn name(text: &str) -> DomainName {
    text.parse().unwrap()
}

async fn lookup(resolver: &Resolver, name: &str) -> Result<Vec<String>, LookupError> {
    let found = resolver.lookup(&name.parse().unwrap()).await?;
    Ok(found.iter().map(IpAddr::to_string).collect())
}

async fn addresses_of(resolver: &Resolver, host: &str) -> Result<Vec<String>, LookupError> {
    Ok(resolver
        .addresses_of(host)
        .await?
        .iter()
        .map(IpAddr::to_string)
        .collect())
}

#[tokio::test]
async fn name_has_addresses_of_both_families_and_is_asked_once() {
    let server = TestNameServer::with(vec![
        leads("a.example", "203.0.113.7", 60),
        leads("a.example", "203.0.113.7", 60),
        leads("a.example", "2001:db8::1", 60),
        leads("a.example", "203.0.113.8", 60),
    ])
    .await;
    let resolver = resolver(&server);
    for _ in 0..3 {
        assert_eq!(
            lookup(&resolver, "A.example").await.unwrap(),
            ["203.0.113.7", "203.0.113.8", "2001:db8::1"]
        );
    }
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn equal_lookups_are_one_even_when_the_first_gives_up() {
    let server = TestNameServer::with(vec![leads("a.example", "203.0.113.7", 60)]).await;
    let resolver = resolver(&server);
    let name = name("a.example");
    let mut first = Box::pin(resolver.lookup(&name));
    assert!(futures::poll!(&mut first).is_pending());
    let mut second = Box::pin(resolver.lookup(&name));
    assert!(futures::poll!(&mut second).is_pending());
    drop(first);
    assert_eq!(second.await.unwrap().len(), 1);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn aliases_are_followed_inside_an_answer_and_beyond_it() {
    let records = vec![
        alias("a.example", "b.example"),
        alias("b.example", "c.example"),
        leads("c.example", "203.0.113.7", 60),
        leads("other.example", "198.51.100.1", 60),
    ];
    let step_by_step = TestNameServer::with(records.clone()).await;
    let resolver_of_steps = resolver(&step_by_step);
    // A cached alias or target makes no difference.
    for name in ["c.example", "a.example", "b.example", "a.example"] {
        assert_eq!(
            lookup(&resolver_of_steps, name).await.unwrap(),
            ["203.0.113.7"],
            "{name}"
        );
    }
    // All at once, in any order, with a record that was not asked for.
    for is_reversed in [false, true] {
        let mut records = records.clone();
        if is_reversed {
            records.reverse();
        }
        let whole = TestNameServer::start(move |query, _| {
            let mut reply = reply_to(query, ResponseCode::NoError);
            reply.answers.clone_from(&records);
            Some(reply.to_vec().unwrap())
        })
        .await;
        assert_eq!(
            lookup(&resolver(&whole), "a.example").await.unwrap(),
            ["203.0.113.7"],
            "{is_reversed}"
        );
    }
}

#[tokio::test]
async fn aliases_in_a_circle_end() {
    let server = TestNameServer::with(vec![
        alias("a.example", "b.example"),
        alias("b.example", "a.example"),
    ])
    .await;
    let error = lookup(&resolver(&server), "a.example").await.unwrap_err();
    assert!(
        matches!(&error, LookupError::Failed(reason) if reason.contains("aliases")),
        "{error:?}"
    );
    assert!(server.asked().len() <= 2 * (MAX_ALIASES + 1));
}

#[tokio::test]
async fn missing_name_is_remembered_and_a_failure_is_not() {
    let missing = TestNameServer::with(vec![]).await;
    let resolver_of_missing = resolver(&missing);
    for _ in 0..2 {
        assert_eq!(
            lookup(&resolver_of_missing, "a.example").await,
            Err(LookupError::NotFound)
        );
    }
    assert_eq!(missing.asked().len(), 2);
    let failing = TestNameServer::start(|query, _| {
        Some(reply_to(query, ResponseCode::ServFail).to_vec().unwrap())
    })
    .await;
    let resolver_of_failing = resolver(&failing);
    for _ in 0..2 {
        assert!(matches!(
            lookup(&resolver_of_failing, "a.example").await,
            Err(LookupError::Failed(_))
        ));
    }
    assert_eq!(failing.asked().len(), 8);
}

#[tokio::test]
async fn name_without_addresses_exists() {
    let server = TestNameServer::with(vec![record(
        "a.example",
        RData::TXT(TXT::new(vec!["a".to_owned()])),
    )])
    .await;
    let resolver = resolver(&server);
    assert!(
        resolver
            .find(&name("a.example"))
            .await
            .unwrap()
            .addresses
            .is_empty()
    );
    assert_eq!(
        lookup(&resolver, "a.example").await,
        Err(LookupError::NotFound)
    );
    assert_eq!(
        resolver
            .records(&name("a.example"), RecordType::TXT)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn one_family_is_enough_when_the_other_fails() {
    let server = TestNameServer::start(|query, _| {
        let reply = if query.queries[0].query_type() == RecordType::A {
            from_records(query, &[leads("a.example", "203.0.113.7", 60)])
        } else {
            reply_to(query, ResponseCode::ServFail)
        };
        Some(reply.to_vec().unwrap())
    })
    .await;
    let found = resolver(&server).find(&name("a.example")).await.unwrap();
    assert_eq!(found.addresses.len(), 1);
    assert!(found.until <= Instant::now() + NEGATIVE_TTL);
}

#[tokio::test]
async fn hosts_file_is_used_first_and_read_again() {
    let server = TestNameServer::with(vec![leads("a.example", "203.0.113.7", 60)]).await;
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    let resolver = Resolver::with_servers_and_hosts(vec![server.address], &hosts);
    assert_eq!(
        lookup(&resolver, "a.example").await.unwrap(),
        ["203.0.113.7"]
    );
    fs::write(&hosts, "192.0.2.1 a.example\n").unwrap();
    assert_eq!(lookup(&resolver, "a.example").await.unwrap(), ["192.0.2.1"]);
    fs::remove_file(&hosts).unwrap();
    assert_eq!(
        lookup(&resolver, "a.example").await.unwrap(),
        ["203.0.113.7"]
    );
}

#[tokio::test]
async fn hosts_file_is_parsed_like_the_c_library() {
    let server = TestNameServer::with(vec![]).await;
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    fs::write(
        &hosts,
        b"# comment\n127.0.0.1\tlocalhost Build.Example # x.example\n2001:db8::1 build.example\nnonsense a.example\n\n\
          10.0.0.1\n10.1 b.example\n\xff\xfe\n10.0.0.2 build.example\n::ffff:10.0.0.3 mapped\n",
    )
    .unwrap();
    let resolver = Resolver::with_servers_and_hosts(vec![server.address], &hosts);
    assert_eq!(
        lookup(&resolver, "build.example").await.unwrap(),
        ["127.0.0.1", "10.0.0.2", "2001:db8::1"]
    );
    assert_eq!(lookup(&resolver, "localhost").await.unwrap(), ["127.0.0.1"]);
    assert_eq!(
        addresses_of(&resolver, "mapped").await.unwrap(),
        ["10.0.0.3"]
    );
    assert_eq!(server.asked(), []);
    for other in ["x.example", "a.example", "b.example"] {
        assert_eq!(lookup(&resolver, other).await, Err(LookupError::NotFound));
    }
}

#[tokio::test]
async fn ttl_is_bounded() {
    let records = vec![
        leads("a.example", "203.0.113.7", 0),
        leads("b.example", "::ffff:10.0.0.1", u32::MAX >> 1),
    ];
    let server = TestNameServer::with(records).await;
    let resolver = resolver(&server);
    let now = Instant::now();
    let short = resolver.find(&name("a.example")).await.unwrap();
    assert!(short.until >= now + MIN_TTL);
    let long = resolver.find(&name("b.example")).await.unwrap();
    assert!(long.until <= Instant::now() + MAX_TTL);
    // An IPv4-mapped address becomes IPv4.
    assert_eq!(long.addresses, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
    let of_b = |(question, _): &&(Query, _)| *question.name() == dns_name("b.example");
    assert_eq!(server.asked().iter().filter(of_b).count(), 2);
}

#[tokio::test]
async fn addresses_and_localhost_need_no_server() {
    let server = TestNameServer::with(vec![]).await;
    let resolver = resolver(&server);
    for address in ["203.0.113.7", "2001:db8::1"] {
        assert_eq!(addresses_of(&resolver, address).await.unwrap(), [address]);
    }
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "app.localhost",
        "a.b.localhost.",
    ] {
        assert_eq!(
            addresses_of(&resolver, host).await.unwrap(),
            ["127.0.0.1", "::1"],
            "{host}"
        );
    }
    for host in ["", ".", "a..b", "with space", "a.invalid", "a.onion"] {
        assert_eq!(
            addresses_of(&resolver, host).await,
            Err(LookupError::NotFound),
            "{host:?}"
        );
    }
    assert_eq!(server.asked(), []);
    addresses_of(&resolver, "notlocalhost").await.unwrap_err();
    assert_ne!(server.asked(), []);
}

#[tokio::test]
async fn relative_name_is_looked_up_in_the_search_domains() {
    let records = vec![
        leads("build.corp.example", "203.0.113.7", 60),
        leads("build", "203.0.113.8", 60),
        leads("a.example", "203.0.113.9", 60),
        leads("a.example.corp.example", "203.0.113.10", 60),
        leads("deep.in.corp.example", "203.0.113.11", 60),
    ];
    let server = TestNameServer::with(records).await;
    let conf = ResolvConf {
        search: vec![name("other.example"), name("corp.example")],
        ..ResolvConf::of_servers(vec![server.address])
    };
    let resolver = Resolver::new(Upstream::of_conf(conf), Path::new("/nonexistent/hosts"));
    for (host, expected) in [
        ("build", "203.0.113.7"),
        ("build.", "203.0.113.8"),
        ("a.example", "203.0.113.9"),
        ("deep.in", "203.0.113.11"),
    ] {
        assert_eq!(
            addresses_of(&resolver, host).await.unwrap(),
            [expected],
            "{host}"
        );
    }
    // The gateway looks up fully qualified names: a search domain would change the name that a rule
    // was checked for.
    assert_eq!(
        lookup(&resolver, "deep.in").await,
        Err(LookupError::NotFound)
    );
}

#[tokio::test]
async fn query_is_recursive_and_asks_once() {
    let server = TestNameServer::start(|query: &Message, _| {
        assert!(query.recursion_desired && query.queries.len() == 1 && query.edns.is_some());
        Some(
            from_records(query, &[leads("a.example", "203.0.113.7", 60)])
                .to_vec()
                .unwrap(),
        )
    })
    .await;
    assert_eq!(
        lookup(&resolver(&server), "a.example").await.unwrap(),
        ["203.0.113.7"]
    );
}
