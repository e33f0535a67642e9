//! Ways out by what a greeting of TLS says, or does not say.

use sandbar_core::{NetworkPolicy, SessionId};
use sandbar_testing::internet::{ATTACKER, WEB};

use crate::world::World;

const NAMED: &str = "allow=allowed.example";

/// The guest is refused, and the servers at the allowed address have not received a greeting.
async fn stays_inside(world: &World<'_>, id: &SessionId, options: &str) {
    world
        .is_refused(id, &["tls", WEB, "443", "attacker.example", options])
        .await;
    let heard = world.internet.received_at(WEB);
    assert!(
        !heard.iter().any(|heard| heard.words == "a greeting of TLS"),
        "{options}: {heard:?}"
    );
    world.no_server_was_reached();
}

pub(crate) async fn denied_sni_at_an_allowed_address(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    stays_inside(world, &id, "{}").await;
    stays_inside(world, &id, r#"{"version": "1.2"}"#).await;
    world
        .was_decided(&id, "deny", "attacker.example", "not in the allow list")
        .await;
    world
        .reaches(
            &id,
            &["tls", WEB, "443", "allowed.example"],
            "hello from allowed.example",
        )
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn allowed_sni_is_dialed_at_its_own_address(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .reaches(
            &id,
            &["tls", ATTACKER, "443", "allowed.example"],
            "hello from allowed.example",
        )
        .await;
    assert!(world.internet.was_reached(WEB));
    world.no_server_was_reached();
}

pub(crate) async fn client_hello_without_sni(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for address in [WEB, ATTACKER] {
        world.is_refused(&id, &["tls", address, "443", ""]).await;
        world.was_decided(&id, "deny", address, "").await;
    }
    assert!(!world.internet.was_reached(WEB));
    world.no_server_was_reached();
}

pub(crate) async fn client_hello_in_many_segments(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    let split = r#"{"split": "segments"}"#;
    stays_inside(world, &id, split).await;
    world
        .reaches(
            &id,
            &["tls", WEB, "443", "allowed.example", split],
            "hello from allowed.example",
        )
        .await;
}

pub(crate) async fn client_hello_in_many_records(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for split in [r#"{"split": "records"}"#, r#"{"split": "records-in-one"}"#] {
        world
            .is_refused(&id, &["tls", WEB, "443", "attacker.example", split])
            .await;
        world
            .reaches(
                &id,
                &["tls", WEB, "443", "allowed.example", split],
                "hello from allowed.example",
            )
            .await;
    }
    world.no_server_was_reached();
}

pub(crate) async fn client_hello_with_an_encrypted_name(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .is_refused(
            &id,
            &["tls", WEB, "443", "allowed.example", r#"{"edit": "ech"}"#],
        )
        .await;
    assert!(!world.internet.was_reached(WEB));
    // An unknown extension is forwarded to the server, which answers or not.
    world
        .is_refused(
            &id,
            &[
                "tls",
                WEB,
                "443",
                "allowed.example",
                r#"{"edit": "grease"}"#,
            ],
        )
        .await;
    assert!(world.internet.was_reached(WEB));
    world.no_server_was_reached();
}

pub(crate) async fn client_hello_with_two_names(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    stays_inside(world, &id, r#"{"edit": "two-names"}"#).await;
    stays_inside(world, &id, r#"{"edit": "name-twice"}"#).await;
}

pub(crate) async fn client_hello_with_an_invalid_name(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for edit in [
        "name-in-nul",
        "name-of-address",
        "empty-name",
        "other-kind-of-name",
        "long-name",
    ] {
        stays_inside(world, &id, &format!(r#"{{"edit": "{edit}"}}"#)).await;
    }
}

pub(crate) async fn denied_sni_in_another_spelling(world: &mut World<'_>) {
    let id = world.session("s", "deny=attacker.example").await;
    for edit in ["dot-at-the-end", "upper-case"] {
        stays_inside(world, &id, &format!(r#"{{"edit": "{edit}"}}"#)).await;
    }
}

pub(crate) async fn client_hello_that_never_ends(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .is_refused(&id, &["endless_greeting", WEB, "443"])
        .await;
    assert!(!world.internet.was_reached(WEB));
}

pub(crate) async fn client_hello_after_a_delay(world: &mut World<'_>) {
    // At a port where a server may speak first, and with an address the session knows.
    let id = world.session("s", NAMED).await;
    world
        .reaches(&id, &["lookup", "allowed.example"], WEB)
        .await;
    world
        .is_refused(
            &id,
            &["tls", WEB, "8443", "attacker.example", r#"{"late": true}"#],
        )
        .await;
    world
        .reaches(
            &id,
            &["tls", WEB, "8443", "allowed.example", r#"{"late": true}"#],
            "hello",
        )
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn other_tls_record_before_client_hello(world: &mut World<'_>) {
    // The session knows the address, so that what is no TLS would be let through.
    let id = world.session("s", NAMED).await;
    world
        .reaches(&id, &["lookup", "allowed.example"], WEB)
        .await;
    // A warning, a change of the cipher, nothing at all, and a beat of the heart.
    for first in [
        r"\x15\x03\x01\x00\x02\x01\x5a",
        r"\x14\x03\x01\x00\x01\x01",
        r"\x16\x03\x01\x00\x00",
        r"\x18\x03\x01\x00\x00",
    ] {
        for port in ["443", "8443"] {
            let options = serde_json::json!({"first": first}).to_string();
            world
                .is_refused(&id, &["tls", WEB, port, "attacker.example", &options])
                .await;
        }
    }
    assert!(!world.internet.was_reached(WEB));
    world.no_server_was_reached();
}

pub(crate) async fn denied_host_in_an_inspected_connection(world: &mut World<'_>) {
    let mut policy: NetworkPolicy = NAMED.parse().unwrap();
    policy.inspect_tls = true;
    let id = world.session_with("s", policy).await;
    let trusted = r#""authority": "/dev/sandbar/ca-certificates.crt""#;
    let fronted = format!(r#"{{{trusted}, "host": "attacker.example"}}"#);
    let honest = format!("{{{trusted}}}");
    world
        .reaches(
            &id,
            &["tls", WEB, "443", "allowed.example", &honest],
            "hello from allowed.example",
        )
        .await;
    world
        .reaches(
            &id,
            &["tls", WEB, "443", "allowed.example", &fronted],
            " 421 ",
        )
        .await;
    world.was_decided(&id, "deny", "attacker.example", "").await;
    world.no_server_was_reached();
}

pub(crate) async fn denied_authority_in_inspected_http2(world: &mut World<'_>) {
    let mut policy: NetworkPolicy = NAMED.parse().unwrap();
    policy.inspect_tls = true;
    let id = world.session_with("s", policy).await;
    world
        .shell(&id, "cp /dev/sandbar/ca-certificates.crt authority.pem")
        .await;
    let line = world
        .guest(
            &id,
            &["http2", WEB, "443", "allowed.example", "allowed.example"],
        )
        .await;
    assert!(
        line.contains("hello from allowed.example") || line.contains("no HTTP/2"),
        "{line}"
    );
    world
        .is_refused(
            &id,
            &["http2", WEB, "443", "allowed.example", "attacker.example"],
        )
        .await;
    world.no_server_was_reached();
}
