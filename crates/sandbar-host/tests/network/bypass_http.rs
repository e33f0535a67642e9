//! Ways out by what a request of HTTP says, or how it says it.

use sandbar_core::SessionId;
use sandbar_testing::internet::{ATTACKER, INTRANET, METADATA, Page, WEB};

use crate::world::World;

const NAMED: &str = "allow=allowed.example";

/// Checks that no answer comes from the attacker, which has received nothing.
async fn stays_inside(world: &World<'_>, id: &SessionId, requests: &[&str]) {
    for request in requests {
        let line = world.guest(id, &["say", WEB, "80", request]).await;
        assert!(!line.contains("hello from attacker"), "{request}: {line}");
        assert!(!line.contains("timed out"), "{request}: {line}");
        world.no_server_was_reached();
    }
}

pub(crate) async fn denied_host_header_at_an_allowed_address(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    let request =
        |host: &str| format!(r"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let refused = world
        .guest(&id, &["say", WEB, "80", &request("attacker.example")])
        .await;
    assert!(
        refused.contains(" 403 ") && refused.contains("attacker.example"),
        "{refused}"
    );
    world
        .was_decided(&id, "deny", "attacker.example", "not in the allow list")
        .await;
    world
        .reaches(
            &id,
            &["say", WEB, "80", &request("allowed.example")],
            "hello from allowed.example",
        )
        .await;
    world
        .reaches(
            &id,
            &["say", WEB, "80", &request("ALLOWED.example:80")],
            "hello from allowed.example",
        )
        .await;
    for host in [
        "attacker.example:80",
        "allowed.example@attacker.example",
        "allowed.example, attacker.example",
        "allowed.example attacker.example",
        r"allowed.example\x00.attacker.example",
        r"allowed.example\tattacker.example",
        "attacker.example.",
        "ATTACKER.EXAMPLE",
        "198.51.100.66",
        "",
    ] {
        stays_inside(world, &id, &[&request(host)]).await;
    }
}

pub(crate) async fn allowed_host_is_dialed_at_its_own_address(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    let request = r"GET / HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n";
    world
        .reaches(
            &id,
            &["say", ATTACKER, "80", request],
            "hello from allowed.example",
        )
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn second_request_for_a_denied_host(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    let two = r"GET /1 HTTP/1.1\r\nHost: allowed.example\r\n\r\nGET /2 HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n";
    let line = world.guest(&id, &["say", WEB, "80", two]).await;
    assert!(
        line.contains("hello from allowed.example") && line.contains(" 403 "),
        "{line}"
    );
    world.no_server_was_reached();
}

pub(crate) async fn request_with_two_hosts(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    stays_inside(
        world,
        &id,
        &[
            r"GET http://attacker.example/ HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n",
            r"GET http://allowed.example/ HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n",
            r"GET / HTTP/1.1\r\nHost: allowed.example\r\nHost: attacker.example\r\nConnection: close\r\n\r\n",
            r"GET / HTTP/1.1\r\nHost: attacker.example\r\nHost: allowed.example\r\nConnection: close\r\n\r\n",
            r"GET / HTTP/1.1\r\nHost: allowed.example\r\n attacker.example\r\nConnection: close\r\n\r\n",
            r"GET / HTTP/1.1\r\nHost : attacker.example\r\nHost: allowed.example\r\nConnection: close\r\n\r\n",
            r"GET //attacker.example/ HTTP/1.1\r\nHost: allowed.example\r\nX-Forwarded-Host: x\r\nConnection: close\r\n\r\n",
        ],
    )
    .await;
}

pub(crate) async fn request_smuggled_in_another(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    let hidden = r"GET / HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n";
    let head = r"POST / HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n";
    for framing in [
        r"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        r"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        r"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        r"Transfer-Encoding:\x0bchunked\r\nContent-Length: 0\r\n\r\n",
        r"Content-Length: 0\r\nContent-Length: 80\r\n\r\n",
        r"Content-Length: +0\r\n\r\n",
        r"Content-Length: 0\n\n",
        r"Transfer-Encoding: chunked\r\n\r\n0;x=\r\n\r\n",
        r"Upgrade: nothing\r\nContent-Length: 0\r\n\r\n",
    ] {
        let line = world
            .guest(
                &id,
                &["say", WEB, "80", &format!("{head}{framing}{hidden}")],
            )
            .await;
        assert!(!line.contains("hello from attacker"), "{framing}: {line}");
        world.no_server_was_reached();
    }
}

pub(crate) async fn malformed_request_to_a_denied_host(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    // The session knows the address, so that what is no HTTP would be let through.
    world
        .reaches(&id, &["lookup", "allowed.example"], WEB)
        .await;
    let rest = r"/ HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n";
    for port in ["80", "8080"] {
        for start in [
            r"\r\n\r\nGET ",
            r"\nGET ",
            " GET ",
            "get ",
            "G-E.T ",
            "PROPFIND ",
            "VERYLONGMETHODOFSOMEBODY ",
        ] {
            let line = world
                .guest(&id, &["say", WEB, port, &format!("{start}{rest}")])
                .await;
            assert!(
                !line.contains("hello from attacker"),
                "{start} at {port}: {line}"
            );
            world.no_server_was_reached();
        }
    }
}

pub(crate) async fn request_after_a_delay(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .reaches(&id, &["lookup", "allowed.example"], WEB)
        .await;
    let request = |host: &str| format!(r"/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    for port in ["80", "8080"] {
        for (early, late) in [("", "GET "), ("G", "ET ")] {
            let attack = format!("{late}{}", request("attacker.example"));
            let line = world.guest(&id, &["late", WEB, port, early, &attack]).await;
            assert!(!line.contains("hello from attacker"), "{line}");
            world.no_server_was_reached();
            let honest = format!("{late}{}", request("allowed.example"));
            // Half a word may be all there is at a port where servers speak first; what follows is
            // then too late.
            if early.is_empty() || port == "80" {
                world
                    .reaches(
                        &id,
                        &["late", WEB, port, early, &honest],
                        "hello from allowed.example",
                    )
                    .await;
            }
        }
    }
}

pub(crate) async fn http2_without_tls(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .reaches(&id, &["lookup", "allowed.example"], WEB)
        .await;
    for port in ["80", "8080"] {
        world
            .is_refused(&id, &["http2", WEB, port, "", "attacker.example"])
            .await;
    }
    world.no_server_was_reached();
}

pub(crate) async fn upgrade_to_another_http_version(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    // The server goes along with everything.
    for protocol in [
        "h2c",
        "H2C",
        "h2c, websocket",
        "websocket, h2c",
        "HTTP/1.1",
        "TLS/1.0",
    ] {
        let request = format!(
            r"GET / HTTP/1.1\r\nHost: allowed.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nGET / HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n"
        );
        let line = world.guest(&id, &["say", WEB, "80", &request]).await;
        assert!(
            !line.contains(" 101 ") && !line.contains("timed out"),
            "{protocol}: {line}"
        );
    }
    world.no_server_was_reached();
}

pub(crate) async fn connect_through_an_allowed_server(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    stays_inside(
        world,
        &id,
        &[
            r"CONNECT attacker.example:443 HTTP/1.1\r\nHost: attacker.example:443\r\nConnection: close\r\n\r\n",
            r"CONNECT allowed.example:80 HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n",
        ],
    )
    .await;
}

pub(crate) async fn redirect_to_a_denied_host(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for (number, to) in [
        "http://attacker.example/",
        "https://attacker.example/",
        "http://198.51.100.66/",
        "https://198.51.100.66/",
        "//evil.example/",
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/away-{number}");
        world
            .internet
            .pages()
            .publish("allowed.example", &path, Page::redirect(to));
        for proxy in ["", "--noproxy '*'"] {
            for scheme in ["http", "https"] {
                let curl =
                    format!("curl -sSkL --max-time 20 {proxy} {scheme}://allowed.example{path}");
                let said = world.shell(&id, &curl).await;
                assert!(
                    !said.stdout.contains("hello from") && !said.stderr.contains("timed out"),
                    "{to}: {said:?}"
                );
            }
        }
    }
    let followed = |heard: &sandbar_testing::internet::Heard| {
        heard.is_request() && heard.words.contains("/away-")
    };
    assert!(
        world
            .internet
            .received_by("allowed.example")
            .iter()
            .filter(|heard| followed(heard))
            .count()
            >= 20
    );
    world.no_server_was_reached();
}

pub(crate) async fn redirect_to_a_private_address(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    for (number, to) in [
        METADATA,
        INTRANET,
        "127.0.0.1:8080",
        "[::1]:8080",
        "203.0.113.200:8080",
        "2852039166",
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/away-{number}");
        world.internet.pages().publish(
            "allowed.example",
            &path,
            Page::redirect(&format!("http://{to}/latest")),
        );
        for proxy in ["", "--noproxy '*'"] {
            let said = world
                .shell(
                    &id,
                    &format!("curl -sSgL --max-time 20 {proxy} http://allowed.example{path}"),
                )
                .await;
            assert!(
                !said.stdout.contains("hello from") && !said.stderr.contains("timed out"),
                "{to}: {said:?}"
            );
        }
    }
    world.no_server_was_reached();
}
