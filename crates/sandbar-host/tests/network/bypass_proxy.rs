//! Bypass attempts through the proxy of the environment variables.

use sandbar_testing::internet::{ATTACKER, INTRANET, METADATA, WEB};

use crate::world::World;

const NAMED: &str = "allow=allowed.example:443,allowed.example:80";
const PROXY: &str = "192.0.0.1";

fn connect(target: &str) -> String {
    format!(r"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
}

pub(crate) async fn connect_to_another_port(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for port in ["8443", "8080", "22", "0", "65536", "443x", ""] {
        let line = world
            .guest(
                &id,
                &[
                    "say",
                    PROXY,
                    "3128",
                    &connect(&format!("allowed.example:{port}")),
                ],
            )
            .await;
        assert!(!line.contains(" 200 "), "{port}: {line}");
    }
    world.was_decided(&id, "deny", "allowed.example", "").await;
    assert!(
        !world
            .internet
            .packets()
            .iter()
            .any(|packet| packet.to.port() == 8443)
    );
    let options = format!(r#"{{"proxy": "{PROXY}"}}"#);
    world
        .reaches(
            &id,
            &["tls", "allowed.example", "443", "allowed.example", &options],
            "hello from allowed",
        )
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn connect_to_a_denied_host(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for target in [
        "attacker.example:443",
        "evil.example:443",
        "ATTACKER.example.:443",
        "allowed.example.attacker.example:443",
    ] {
        let line = world
            .guest(&id, &["say", PROXY, "3128", &connect(target)])
            .await;
        assert!(line.contains(" 403 "), "{target}: {line}");
    }
    world
        .was_decided(&id, "deny", "attacker.example", "not in the allow list")
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn connect_to_an_address(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    for target in [
        format!("{METADATA}:80"),
        format!("{INTRANET}:443"),
        format!("[::ffff:{INTRANET}]:443"),
        "203.0.113.200:9000".into(),
        "192.0.0.1:3128".into(),
    ] {
        let line = world
            .guest(&id, &["say", PROXY, "3128", &connect(&target)])
            .await;
        assert!(!line.contains(" 200 "), "{target}: {line}");
    }
    world.was_decided(&id, "deny", METADATA, "metadata").await;
    world.no_server_was_reached();
}

pub(crate) async fn connect_to_the_host_loopback(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    for host in [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "0.0.0.0",
        "[::]",
        "[::ffff:127.0.0.1]",
        "loopback.example",
        "localhost.localdomain",
        "0",
    ] {
        for port in ["8080", "9000"] {
            let line = world
                .guest(
                    &id,
                    &["say", PROXY, "3128", &connect(&format!("{host}:{port}"))],
                )
                .await;
            assert!(!line.contains(" 200 "), "{host}: {line}");
        }
    }
    world.no_server_was_reached();
}

pub(crate) async fn denied_sni_inside_connect(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    let options = format!(r#"{{"proxy": "{PROXY}"}}"#);
    world
        .is_refused(
            &id,
            &[
                "tls",
                "allowed.example",
                "443",
                "attacker.example",
                &options,
            ],
        )
        .await;
    let late = format!(r#"{{"proxy": "{PROXY}", "late": true}}"#);
    world
        .is_refused(
            &id,
            &["tls", "allowed.example", "443", "attacker.example", &late],
        )
        .await;
    let hidden = r"GET / HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n";
    let line = world
        .guest(
            &id,
            &[
                "say",
                PROXY,
                "3128",
                &format!("{}{hidden}", connect("allowed.example:80")),
            ],
        )
        .await;
    assert!(!line.contains("hello from attacker"), "{line}");
    let line = world
        .guest(
            &id,
            &[
                "late",
                PROXY,
                "3128",
                &connect("allowed.example:80"),
                hidden,
            ],
        )
        .await;
    assert!(!line.contains("hello from attacker"), "{line}");
    world.no_server_was_reached();
}

pub(crate) async fn proxy_request_for_a_denied_host(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    let request = |uri: &str, host: &str| {
        format!(r"GET {uri} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    };
    let honest = request("http://allowed.example/", "allowed.example");
    world
        .reaches(
            &id,
            &["say", PROXY, "3128", &honest],
            "hello from allowed.example",
        )
        .await;
    for (uri, host) in [
        ("http://attacker.example/", "attacker.example"),
        ("http://attacker.example/", "allowed.example"),
        (
            "http://allowed.example@attacker.example/",
            "allowed.example",
        ),
        (
            "http://allowed.example:80@attacker.example/",
            "allowed.example",
        ),
        ("http://198.51.100.66/", "allowed.example"),
        ("http://169.254.169.254/latest", "169.254.169.254"),
        ("http://allowed.example:8080/", "allowed.example:8080"),
        ("ftp://attacker.example/", "allowed.example"),
        ("gopher://attacker.example:80/", "allowed.example"),
        ("/", "attacker.example"),
        ("//attacker.example/", "allowed.example"),
        ("http:///", "attacker.example"),
    ] {
        let line = world
            .guest(&id, &["say", PROXY, "3128", &request(uri, host)])
            .await;
        assert!(
            !line.contains("hello from attacker") && !line.contains("timed out"),
            "{uri} {host}: {line}"
        );
        world.no_server_was_reached();
    }
    assert!(
        !world
            .internet
            .packets()
            .iter()
            .any(|packet| packet.to.port() == 8080)
    );
    let first = r"GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n";
    let second = request("http://attacker.example/", "attacker.example");
    let line = world
        .guest(&id, &["say", PROXY, "3128", &format!("{first}{second}")])
        .await;
    assert!(
        line.contains("hello from allowed.example") && line.contains(" 403 "),
        "{line}"
    );
    world.no_server_was_reached();
}

pub(crate) async fn connect_by_way_of_another_address(world: &mut World<'_>) {
    // The port of the proxy serves no proxy at another address.
    let id = world.session("s", NAMED).await;
    for address in [ATTACKER, WEB] {
        let request = r"CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example:443\r\nConnection: close\r\n\r\n";
        let line = world.guest(&id, &["say", address, "3128", request]).await;
        assert!(
            !line.contains(" 200 ") && !line.contains("timed out"),
            "{line}"
        );
    }
    world.no_server_was_reached();
}
