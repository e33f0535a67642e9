//! Ways out by DNS, and by names that lead somewhere else.

use sandbar_core::SessionId;
use sandbar_testing::internet::{
    ATTACKER, Answer, DNS, ECHO, HOST, INTRANET, METADATA, PUBLIC_RESOLVER, WEB,
};

use crate::world::World;

const NAMED: &str = "allow=allowed.example";

/// The answer itself says that there is no such name.
const NO_SUCH_NAME: &str = "code 3";

fn request(host: &str) -> String {
    format!(r"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

pub(crate) async fn other_dns_server_is_unreachable(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for server in [
        ATTACKER,
        PUBLIC_RESOLVER,
        "127.0.0.1",
        "127.0.0.53",
        "192.0.0.1",
    ] {
        let line = world
            .is_refused(&id, &["dns", server, "attacker.example", "A", "udp"])
            .await;
        assert!(line.contains(NO_SUCH_NAME), "{line}");
        world
            .reaches(&id, &["dns", server, "allowed.example", "A", "udp"], WEB)
            .await;
    }
    assert!(!world.internet.was_reached(PUBLIC_RESOLVER) && world.internet.was_reached(DNS));
    world
        .was_decided(&id, "deny", "attacker.example", "not in the allow list")
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn other_dns_server_is_unreachable_by_tcp(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for server in [ATTACKER, PUBLIC_RESOLVER, "192.0.0.1"] {
        let line = world
            .is_refused(&id, &["dns", server, "attacker.example", "A", "tcp"])
            .await;
        assert!(line.contains(NO_SUCH_NAME), "{line}");
        world
            .reaches(&id, &["dns", server, "allowed.example", "A", "tcp"], WEB)
            .await;
    }
    assert!(!world.internet.was_reached(PUBLIC_RESOLVER));
    world.no_server_was_reached();
}

pub(crate) async fn other_dns_server_is_unreachable_by_dot_and_doh(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for way in ["tls", "https"] {
        for server in [PUBLIC_RESOLVER, ATTACKER] {
            world
                .is_refused(&id, &["dns", server, "allowed.example", "A", way])
                .await;
        }
    }
    world
        .was_decided(&id, "deny", "doh.example", "not in the allow list")
        .await;
    world
        .was_decided(&id, "deny", "dot.example", "not in the allow list")
        .await;
    assert!(!world.internet.was_reached(PUBLIC_RESOLVER));
    world.no_server_was_reached();
}

pub(crate) async fn dns_queries_exfiltrate_nothing(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    let long = format!("{}.{}.attacker.example", "a".repeat(63), "b".repeat(63));
    for name in [
        "secret.attacker.example",
        &long,
        "allowed.example.attacker.example",
    ] {
        for kind in ["A", "AAAA", "TXT", "NS", "HTTPS", "ANY"] {
            let line = world
                .is_refused(&id, &["dns", "192.0.0.1", name, kind, "udp"])
                .await;
            assert!(line.contains(NO_SUCH_NAME), "{line}");
        }
    }
    // Below a name that is allowed nothing is allowed.
    world
        .is_refused(
            &id,
            &["dns", "192.0.0.1", "secret.allowed.example", "A", "udp"],
        )
        .await;
    assert_eq!(world.internet.received_at(DNS), []);
    world.no_server_was_reached();
}

/// Waits until requests for a name are refused because of where it leads.
async fn turns(world: &World<'_>, id: &SessionId, name: &str) {
    let turned = async || {
        let line = world.guest(id, &["say", WEB, "80", &request(name)]).await;
        line.contains(" 403 ").then_some(())
    };
    world
        .fixture
        .eventually("the name has turned", turned)
        .await;
    world
        .was_decided(id, "deny", name, "the name leads to")
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn dns_rebinding_to_a_private_address(world: &mut World<'_>) {
    let private = [INTRANET, METADATA, "127.0.0.1", HOST];
    let names: Vec<String> = (0..private.len())
        .map(|number| format!("rebind-{number}.example"))
        .collect();
    let id = world
        .session("s", &format!("allow={}", names.join(",")))
        .await;
    for name in &names {
        world
            .internet
            .zone()
            .set(name, Answer::Addresses(vec![WEB.parse().unwrap()]));
        world
            .reaches(
                &id,
                &["say", WEB, "80", &request(name)],
                &format!("hello from {name}"),
            )
            .await;
    }
    for (name, private) in names.iter().zip(private) {
        world
            .internet
            .zone()
            .set(name, Answer::Addresses(vec![private.parse().unwrap()]));
    }
    for name in &names {
        turns(world, &id, name).await;
    }
}

pub(crate) async fn dns_rebinding_after_the_first_query(world: &mut World<'_>) {
    let turns_of = |private: &str| {
        Answer::Turns(
            [WEB, private]
                .map(|address| address.parse().unwrap())
                .to_vec(),
        )
    };
    let id = world
        .session("s", "allow=first.example,second.example")
        .await;
    for (name, private) in [("first.example", METADATA), ("second.example", "127.0.0.1")] {
        world.internet.zone().set(name, turns_of(private));
        // A later user of the address is judged by its own lookup, not by this answer.
        world
            .reaches(&id, &["dns", "192.0.0.1", name, "A", "udp"], "reached")
            .await;
        turns(world, &id, name).await;
    }
}

/// By HTTP, by TLS, by the proxy, and by whatever DNS says.
async fn leads_nowhere(world: &World<'_>, id: &SessionId, name: &str) {
    let line = world.guest(id, &["say", WEB, "80", &request(name)]).await;
    assert!(
        line.contains(" 403 ") || line.contains(" 502 "),
        "{name}: {line}"
    );
    let connect = format!(r"CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n");
    let line = world
        .guest(id, &["say", "192.0.0.1", "3128", &connect])
        .await;
    assert!(!line.contains(" 200 "), "{name}: {line}");
    let line = world
        .guest(id, &["dns", "192.0.0.1", name, "A", "udp"])
        .await;
    for address in [INTRANET, METADATA, HOST, "127.0.0.1"] {
        assert!(!line.contains(address), "{name}: {line}");
    }
    world.no_server_was_reached();
}

pub(crate) async fn name_of_a_private_address(world: &mut World<'_>) {
    let names = [
        "intern.example",
        "metadata.example",
        "loopback.example",
        "host.example",
    ];
    let id = world
        .session("s", &format!("allow={}", names.join(",")))
        .await;
    for name in names {
        leads_nowhere(world, &id, name).await;
    }
    world
        .is_refused(&id, &["tls", WEB, "443", "intern.example"])
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn alias_of_a_private_address(world: &mut World<'_>) {
    world
        .internet
        .zone()
        .set("alias.example", Answer::Alias("intern.example".into()));
    world.internet.zone().set(
        "mapped.example",
        Answer::Addresses(vec!["::ffff:10.66.0.10".parse().unwrap()]),
    );
    let id = world
        .session("s", "allow=alias.example,mapped.example")
        .await;
    leads_nowhere(world, &id, "alias.example").await;
    leads_nowhere(world, &id, "mapped.example").await;
}

pub(crate) async fn name_of_a_private_and_a_public_address(world: &mut World<'_>) {
    let both = [INTRANET, WEB, METADATA].map(|address| address.parse().unwrap());
    world
        .internet
        .zone()
        .set("mixed.example", Answer::Addresses(both.to_vec()));
    let id = world.session("s", "allow=mixed.example").await;
    for address in [INTRANET, WEB] {
        let line = world
            .guest(&id, &["say", address, "80", &request("mixed.example")])
            .await;
        assert!(
            line.contains("hello from mixed.example") || line.contains(" 403 "),
            "{line}"
        );
    }
    world.no_server_was_reached();
}

pub(crate) async fn resolved_address_opens_no_other(world: &mut World<'_>) {
    let id = world.session("s", "allow=echo.example:9000").await;
    // No DNS response has given the session this address of the host.
    world
        .is_refused(&id, &["echo", ECHO, "9000", "hello"])
        .await;
    world
        .reaches(&id, &["echo", "echo.example", "9000", "hello"], "hello")
        .await;
    world
        .reaches(&id, &["echo", ECHO, "9000", "hello"], "hello")
        .await;
    world.is_refused(&id, &["echo", ECHO, "7", "hello"]).await;
    world
        .is_refused(&id, &["echo", ATTACKER, "9000", "hello"])
        .await;
    // DNS responses of one session do not count for another.
    let other = world.session("t", "allow=echo.example:9000").await;
    world
        .is_refused(&other, &["echo", ECHO, "9000", "hello"])
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn denied_host_by_its_address(world: &mut World<'_>) {
    let id = world.session("s", "deny=evil.example").await;
    world.is_refused(&id, &["lookup", "evil.example"]).await;
    world
        .is_refused(&id, &["echo", ATTACKER, "9000", "hello"])
        .await;
    world
        .was_decided(&id, "deny", ATTACKER, "evil.example")
        .await;
    world.is_refused(&id, &["tls", ATTACKER, "443", ""]).await;
    world
        .is_refused(&id, &["speaks_first", ATTACKER, "22"])
        .await;
    world
        .reaches(&id, &["echo", ECHO, "9000", "hello"], "hello")
        .await;
    let heard: Vec<_> = world.internet.received_at(ATTACKER);
    assert_eq!(heard, []);
}
