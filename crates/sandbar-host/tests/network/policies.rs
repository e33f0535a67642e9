//! Effects of each part of a policy, counters and audit entries.

use sandbar_core::{ByteCount, NetworkPolicy, SessionId};
use sandbar_testing::internet::{ATTACKER, ECHO, INTRANET, WEB, WEB_V6};

use crate::world::World;

/// A request by HTTP at the address of a name, or of another.
async fn get(world: &World<'_>, id: &SessionId, host: &str, port: &str) -> String {
    let request = format!(r"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n");
    world.guest(id, &["say", WEB, port, &request]).await
}

async fn opens(world: &World<'_>, id: &SessionId, host: &str, port: &str) {
    let line = get(world, id, host, port).await;
    assert!(
        line.contains(&format!("hello from {host}")),
        "{host}:{port}: {line}"
    );
}

async fn closes(world: &World<'_>, id: &SessionId, host: &str, port: &str) {
    let line = get(world, id, host, port).await;
    assert!(line.contains(" 403 "), "{host}:{port}: {line}");
}

pub(crate) async fn full_policy_opens_public_addresses(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    opens(world, &id, "other.example", "80").await;
    opens(world, &id, "allowed.example", "8080").await;
    world
        .reaches(
            &id,
            &["tls", WEB, "443", "other.example"],
            "hello from other.example",
        )
        .await;
    world.reaches(&id, &["tls", WEB, "443", ""], "hello").await;
    world
        .reaches(&id, &["echo", ECHO, "9000", "hello"], "hello")
        .await;
    world
        .reaches(&id, &["echo", "echo.example", "9000", "hello"], "hello")
        .await;
    world
        .reaches(&id, &["lookup", "attacker.example"], WEB)
        .await;
    world
        .is_refused(&id, &["echo", INTRANET, "9000", "hello"])
        .await;
    assert!(
        world
            .fixture
            .host
            .get_network(&id)
            .await
            .unwrap()
            .enforced
            .is_yes()
    );
}

pub(crate) async fn deny_overrides_allow(world: &mut World<'_>) {
    let id = world
        .session(
            "s",
            &format!("deny=attacker.example,*.attacker.example,{ATTACKER},allowed.example:8080"),
        )
        .await;
    opens(world, &id, "other.example", "80").await;
    opens(world, &id, "allowed.example", "80").await;
    closes(world, &id, "allowed.example", "8080").await;
    closes(world, &id, "attacker.example", "80").await;
    closes(world, &id, "data.attacker.example", "80").await;
    world
        .is_refused(&id, &["echo", ATTACKER, "9000", "hello"])
        .await;
    world
        .is_refused(&id, &["tls", WEB, "443", "attacker.example"])
        .await;
    world
        .was_decided(
            &id,
            "deny",
            "attacker.example",
            "denied by `attacker.example`",
        )
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn wildcard_opens_subdomains(world: &mut World<'_>) {
    let id = world.session("s", "allow=*.allowed.example").await;
    opens(world, &id, "www.allowed.example", "80").await;
    closes(world, &id, "allowed.example", "80").await;
    world.is_refused(&id, &["lookup", "allowed.example"]).await;
    world
        .reaches(&id, &["lookup", "www.allowed.example"], WEB)
        .await;
}

pub(crate) async fn ports_are_opened_one_by_one_and_in_ranges(world: &mut World<'_>) {
    let id = world
        .session("s", &format!("allow=allowed.example:8000-8100,{ECHO}:9000"))
        .await;
    opens(world, &id, "allowed.example", "8080").await;
    closes(world, &id, "allowed.example", "80").await;
    world
        .reaches(&id, &["echo", ECHO, "9000", "hello"], "hello")
        .await;
    world.is_refused(&id, &["echo", ECHO, "7", "hello"]).await;
}

pub(crate) async fn address_range_opens_plain_addresses(world: &mut World<'_>) {
    let id = world
        .session("s", "allow=203.0.113.0/28,[2001:db8::/48]:443")
        .await;
    // Whatever is said there.
    opens(world, &id, "other.example", "80").await;
    world.reaches(&id, &["tls", WEB, "443", ""], "hello").await;
    world
        .reaches(&id, &["tls", WEB_V6, "443", ""], "hello")
        .await;
    world
        .is_refused(&id, &["echo", WEB_V6, "80", "hello"])
        .await;
    world
        .is_refused(&id, &["echo", ECHO, "9000", "hello"])
        .await;
}

pub(crate) async fn named_private_network_is_open(world: &mut World<'_>) {
    let id = world.session("s", "allow=10.66.0.0/16:9000").await;
    world
        .reaches(&id, &["echo", INTRANET, "9000", "hello"], "hello")
        .await;
    world
        .is_refused(&id, &["echo", INTRANET, "80", "hello"])
        .await;
}

pub(crate) async fn names_resolve_to_a_private_network_if_allowed(world: &mut World<'_>) {
    let mut policy: NetworkPolicy = "allow=intern.example".parse().unwrap();
    let id = world.session_with("s", policy.clone()).await;
    closes(world, &id, "intern.example", "80").await;
    policy.private_ranges = vec!["10.66.0.0/16".parse().unwrap()];
    world.fixture.host.set_network(&id, policy).await.unwrap();
    opens(world, &id, "intern.example", "80").await;
    world
        .reaches(&id, &["lookup", "intern.example"], INTRANET)
        .await;
    // By its name only.
    let other = r"GET / HTTP/1.1\r\nHost: 10.66.0.10\r\nConnection: close\r\n\r\n";
    world
        .reaches(&id, &["say", INTRANET, "80", other], " 403 ")
        .await;
}

pub(crate) async fn server_speaks_first_protocol_works(world: &mut World<'_>) {
    let id = world.session("s", "allow=ssh.example:22").await;
    world
        .reaches(
            &id,
            &["speaks_first", "ssh.example", "22"],
            "SSH-2.0-internet",
        )
        .await;
    world.was_decided(&id, "allow", "ssh.example", "").await;
}

pub(crate) async fn udp_is_open_on_named_ports(world: &mut World<'_>) {
    let id = world.session("s", "allow=udp://echo.example:9001").await;
    world.reaches(&id, &["lookup", "echo.example"], ECHO).await;
    world
        .reaches(&id, &["udp", ECHO, "9001", "hello"], "hello")
        .await;
    world.is_refused(&id, &["udp", ECHO, "9002", "hello"]).await;
    world
        .is_refused(&id, &["echo", ECHO, "9000", "hello"])
        .await;
    // Opened and closed while the session runs.
    world.set(&id, &format!("allow=udp://{ECHO}:9002")).await;
    world
        .reaches(&id, &["udp", ECHO, "9002", "hello"], "hello")
        .await;
    world
        .is_refused(&id, &["unanswered_udp", ECHO, "9001", "again"])
        .await;
    let heard = world.internet.received_at(ECHO);
    assert!(
        !heard.iter().any(|heard| heard.words == "again"),
        "{heard:?}"
    );
}

pub(crate) async fn ipv6_works_like_ipv4(world: &mut World<'_>) {
    let id = world.session("s", "allow=six.example,both.example").await;
    world.reaches(&id, &["lookup", "six.example"], WEB_V6).await;
    world
        .reaches(
            &id,
            &["tls", "six.example", "443", "six.example"],
            "hello from six.example",
        )
        .await;
    world
        .reaches(
            &id,
            &["tls", WEB_V6, "443", "both.example"],
            "hello from both.example",
        )
        .await;
    world
        .reaches(
            &id,
            &["dns", "2001:db8::53", "six.example", "AAAA", "udp"],
            WEB_V6,
        )
        .await;
}

pub(crate) async fn policy_change_applies_at_once_to_new_connections(world: &mut World<'_>) {
    let id = world
        .session("s", "allow=echo.example:9000,allowed.example")
        .await;
    opens(world, &id, "allowed.example", "80").await;
    closes(world, &id, "other.example", "80").await;
    let holding = world.guest(&id, &["held", "echo.example", "9000", "1"]);
    let changing = async {
        let seen = async || world.fixture.read(&id, "held").await;
        world.fixture.eventually("a connection is open", seen).await;
        world.set(&id, "allow=other.example").await;
        closes(world, &id, "allowed.example", "80").await;
        opens(world, &id, "other.example", "80").await;
        world
            .is_refused(&id, &["echo", ECHO, "9000", "hello"])
            .await;
        world.fixture.write(&id, "go", "").await;
    };
    let (line, ()) = tokio::join!(holding, changing);
    assert_eq!(line, "reached: used to the end");
    assert_eq!(
        world
            .fixture
            .host
            .get_network(&id)
            .await
            .unwrap()
            .policy
            .to_string(),
        "allow=other.example"
    );
}

pub(crate) async fn closed_session_is_opened_while_it_runs(world: &mut World<'_>) {
    let id = world.session("s", "none").await;
    // A box there is, and nothing in it.
    assert_eq!(world.shell(&id, "true").await.code, Some(0));
    world.set(&id, "allow=allowed.example").await;
    opens(world, &id, "allowed.example", "80").await;
    closes(world, &id, "other.example", "80").await;
    let said = world.shell(&id, "curl -sS http://allowed.example/").await;
    assert!(
        said.stdout.contains("hello from allowed.example"),
        "{said:?}"
    );
}

pub(crate) async fn many_connections_are_open_at_once(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    let holding = world.guest(&id, &["held", ECHO, "9000", "300"]);
    let releasing = async {
        let seen = async || (world.fixture.read(&id, "held").await? == "300").then_some(());
        world.fixture.eventually("all are open", seen).await;
        assert_eq!(
            world
                .fixture
                .host
                .get_network(&id)
                .await
                .unwrap()
                .traffic
                .connections,
            300
        );
        world.fixture.write(&id, "go", "").await;
    };
    let (line, ()) = tokio::join!(holding, releasing);
    assert_eq!(line, "reached: used to the end");
    let closed = async || {
        let open = world
            .fixture
            .host
            .get_network(&id)
            .await
            .unwrap()
            .traffic
            .connections;
        (open == 0).then_some(())
    };
    world.fixture.eventually("all are closed", closed).await;
}

pub(crate) async fn concurrent_connections_are_limited(world: &mut World<'_>) {
    let mut policy = NetworkPolicy::full();
    policy.limits.connections = Some(2);
    let id = world.session_with("s", policy).await;
    let holding = world.guest(&id, &["held", ECHO, "9000", "2"]);
    let others = async {
        let seen = async || (world.fixture.read(&id, "held").await? == "2").then_some(());
        world
            .fixture
            .eventually("two connections are open", seen)
            .await;
        assert_eq!(
            world
                .fixture
                .host
                .get_network(&id)
                .await
                .unwrap()
                .traffic
                .connections,
            2
        );
        world
            .is_refused(&id, &["echo", ECHO, "9000", "hello"])
            .await;
        world.was_decided(&id, "deny", ECHO, "connections").await;
        world.fixture.write(&id, "go", "").await;
    };
    let (line, ()) = tokio::join!(holding, others);
    assert_eq!(line, "reached: used to the end");
    let again = async || {
        world
            .guest(&id, &["echo", ECHO, "9000", "hello"])
            .await
            .starts_with("reached")
            .then_some(())
    };
    world.fixture.eventually("there is room again", again).await;
}

pub(crate) async fn connection_rate_is_limited(world: &mut World<'_>) {
    let mut policy = NetworkPolicy::full();
    policy.limits.new_connections_per_second = Some(1);
    let id = world.session_with("s", policy).await;
    let line = world.guest(&id, &["many", ECHO, "9000", "50"]).await;
    let good: u32 = line
        .trim_start_matches("reached: ")
        .trim_end_matches(" good")
        .parse()
        .unwrap();
    assert!((1..50).contains(&good), "{line}");
}

pub(crate) async fn bandwidth_is_limited(world: &mut World<'_>) {
    let mut policy = NetworkPolicy::full();
    policy.limits.bytes_per_second = Some(ByteCount::mib(1));
    let id = world.session_with("s", policy).await;
    // There and back is two mebibytes: one may come at once, the other takes its second.
    let line = world.guest(&id, &["bulk", ECHO, "9000", "1048576"]).await;
    let took: u64 = line
        .trim_start_matches("reached: ")
        .trim_end_matches(" ms")
        .parse()
        .unwrap();
    assert!(took >= 700, "{line}");
}

pub(crate) async fn traffic_is_counted(world: &mut World<'_>) {
    let id = world
        .session("s", &format!("allow={ECHO},allowed.example"))
        .await;
    world.guest(&id, &["bulk", ECHO, "9000", "1000000"]).await;
    world
        .is_refused(&id, &["echo", ATTACKER, "9000", "hello"])
        .await;
    opens(world, &id, "allowed.example", "80").await;
    closes(world, &id, "attacker.example", "80").await;
    let traffic = world.fixture.host.get_network(&id).await.unwrap().traffic;
    for bytes in [traffic.bytes_sent, traffic.bytes_received] {
        assert!((1_000_000..1_100_000).contains(&bytes), "{traffic:?}");
    }
    let counts = (traffic.allowed, traffic.denied, traffic.connections);
    assert!(traffic.allowed >= 2 && traffic.denied == 2, "{counts:?}");
}

pub(crate) async fn every_decision_is_audited_and_counted(world: &mut World<'_>) {
    let id = world
        .session(
            "s",
            &format!("allow=allowed.example,{ECHO}:9000,udp://{ECHO}:9001"),
        )
        .await;
    world
        .reaches(&id, &["lookup", "allowed.example"], WEB)
        .await;
    world.is_refused(&id, &["lookup", "other.example"]).await;
    opens(world, &id, "allowed.example", "80").await;
    closes(world, &id, "other.example", "80").await;
    world
        .reaches(&id, &["tls", WEB, "443", "allowed.example"], "hello")
        .await;
    world
        .is_refused(&id, &["tls", WEB, "443", "other.example"])
        .await;
    world
        .reaches(&id, &["echo", ECHO, "9000", "hello"], "hello")
        .await;
    world
        .is_refused(&id, &["echo", ATTACKER, "9000", "hello"])
        .await;
    world
        .reaches(&id, &["udp", ECHO, "9001", "hello"], "hello")
        .await;
    world
        .is_refused(&id, &["unanswered_udp", ATTACKER, "9001", "hello"])
        .await;
    let proxied = |host: &str| format!(r"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}\r\n\r\n");
    world
        .guest(
            &id,
            &["say", "192.0.0.1", "3128", &proxied("other.example")],
        )
        .await;
    let options = r#"{"proxy": "192.0.0.1"}"#;
    world
        .reaches(
            &id,
            &["tls", "allowed.example", "443", "allowed.example", options],
            "hello",
        )
        .await;
    for protocol in ["dns", "http", "tls", "tcp", "udp", "proxy"] {
        for verdict in ["allow", "deny"] {
            let what = format!("network_{verdict}");
            let written = async || {
                let fits = |entry: &sandbar_core::AuditEntry| {
                    entry.what == what && entry.detail["protocol"] == protocol
                };
                world.decisions(&id).await.into_iter().find(fits)
            };
            let entry = world
                .fixture
                .eventually(&format!("{verdict} by {protocol} is written down"), written)
                .await;
            assert!(
                entry.detail["reason"]
                    .as_str()
                    .is_some_and(|reason| !reason.is_empty()),
                "{entry:?}"
            );
            assert_eq!(entry.who.as_str(), "host");
            let sample = format!(
                "sandbar_network_decisions_total{{verdict=\"{verdict}\",protocol=\"{protocol}\"}}"
            );
            assert!(world.metric(&sample).await >= 1.0, "{sample}");
        }
    }
    assert!(
        world
            .metric("sandbar_network_bytes_total{direction=\"sent\"}")
            .await
            > 0.0
    );
    assert!(
        world
            .metric("sandbar_network_bytes_total{direction=\"received\"}")
            .await
            > 0.0
    );
}

pub(crate) async fn policy_lives_as_long_as_its_session(world: &mut World<'_>) {
    let id = world.session("s", "allow=allowed.example").await;
    world.fixture.snapshot(&id, "a").await;
    world.set(&id, "allow=other.example").await;
    let snapshot = crate::fixture::snap("a");
    world
        .fixture
        .host
        .rollback_session(&id, &snapshot, sandbar_core::LaterSnapshots::Drop)
        .await
        .unwrap();
    opens(world, &id, "other.example", "80").await;
    closes(world, &id, "allowed.example", "80").await;
    let fork = world
        .fixture
        .host
        .fork_session(&id, sandbar_core::ForkRequest::default())
        .await
        .unwrap()
        .remove(0)
        .id;
    opens(world, &fork, "other.example", "80").await;
    closes(world, &fork, "allowed.example", "80").await;
    world.fixture.host.pause_session(&id).await.unwrap();
    world.fixture.host.resume_session(&id).await.unwrap();
    opens(world, &id, "other.example", "80").await;
    world.fixture.restart().await;
    opens(world, &id, "other.example", "80").await;
    closes(world, &id, "allowed.example", "80").await;
}
