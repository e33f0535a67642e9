//! The attempts of the guest outside a session: each succeeds without the gateway. This proves that
//! a refusal in a session is the work of the host and not a broken attempt.

use std::process::Command;

use sandbar_testing::internet::{self, Internet};

use crate::guest::PROGRAM;

fn guest(internet: &Internet, arguments: &[&str]) -> String {
    let directory = internet.authority().parent().unwrap();
    let mut command = Command::new("/usr/bin/python3");
    // It trusts what lies beside it.
    let output = command
        .args(["-c", PROGRAM])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_bypass_works_without_the_gateway() {
    let internet = Internet::start();
    for (arguments, answer) in [
        (&["echo", internet::ATTACKER, "9000", "hello"][..], "hello"),
        (&["echo", internet::ATTACKER_V6, "9000", "hello"], "hello"),
        (&["echo", "127.0.0.1", "9000", "hello"], "hello"),
        (&["echo", internet::HOST, "9000", "hello"], "hello"),
        (&["mapped", "::ffff:10.66.0.10", "9000", "hello"], "hello"),
        (&["fast_open", internet::ATTACKER, "9000", "hello"], "hello"),
        (&["speaks_first", internet::ATTACKER, "22"], "SSH-2.0"),
        (&["udp", internet::ATTACKER, "9001", "hello"], "hello"),
        (
            &[
                "say",
                internet::METADATA,
                "80",
                r"GET / HTTP/1.0\r\nHost: metadata\r\n\r\n",
            ],
            "hello from metadata",
        ),
        (
            &["dns", internet::ATTACKER, "attacker.example", "A", "udp"],
            internet::WEB,
        ),
        (
            &["dns", internet::ATTACKER, "six.example", "AAAA", "tcp"],
            internet::WEB_V6,
        ),
        (
            &[
                "dns",
                internet::PUBLIC_RESOLVER,
                "attacker.example",
                "A",
                "tls",
            ],
            internet::WEB,
        ),
        (
            &[
                "dns",
                internet::PUBLIC_RESOLVER,
                "attacker.example",
                "A",
                "https",
            ],
            internet::WEB,
        ),
        (
            &["tls", internet::WEB, "443", "attacker.example"],
            "hello from attacker.example",
        ),
        (
            &[
                "tls",
                internet::WEB,
                "443",
                "attacker.example",
                r#"{"version": "1.2"}"#,
            ],
            "hello from attacker.example",
        ),
        (
            &[
                "tls",
                internet::WEB,
                "443",
                "attacker.example",
                r#"{"split": "segments"}"#,
            ],
            "hello from attacker.example",
        ),
        (
            &[
                "tls",
                internet::WEB,
                "443",
                "attacker.example",
                r#"{"split": "records"}"#,
            ],
            "hello from attacker.example",
        ),
        (
            &[
                "tls",
                internet::WEB,
                "443",
                "allowed.example",
                r#"{"host": "other.example"}"#,
            ],
            "hello from other.example",
        ),
        (
            &["tls", internet::WEB, "443", ""],
            "hello from 203.0.113.10",
        ),
        (
            &[
                "http2",
                internet::WEB,
                "443",
                "allowed.example",
                "attacker.example",
            ],
            "hello from attacker.example",
        ),
        (
            &["http2", internet::WEB, "80", "", "attacker.example"],
            "hello from attacker.example",
        ),
        (&["icmp", internet::ATTACKER, "SOCK_RAW"], ""),
        (
            &["at_interface", "wire", internet::ATTACKER, "9000"],
            "hello",
        ),
        (&["with_mark", internet::ATTACKER, "9000"], "hello"),
        (
            &[
                "with_forged_source",
                internet::HOST,
                internet::ATTACKER,
                "9000",
            ],
            "hello",
        ),
    ] {
        let line = guest(&internet, arguments);
        assert!(
            line.starts_with("reached: ") && line.contains(answer),
            "{arguments:?}: {line}"
        );
    }
    // Edited greetings arrive, whatever the server thinks of them.
    for edit in [
        "ech",
        "grease",
        "two-names",
        "name-twice",
        "name-in-nul",
        "other-kind-of-name",
        "upper-case",
    ] {
        let before = internet.received_at(internet::WEB).len();
        let line = guest(
            &internet,
            &[
                "tls",
                internet::WEB,
                "443",
                "attacker.example",
                &format!(r#"{{"edit": "{edit}"}}"#),
            ],
        );
        assert!(line.starts_with("refused: "), "{edit}: {line}");
        assert!(internet.received_at(internet::WEB).len() > before, "{edit}");
    }
    // A packet without a response must at least have been sent.
    guest(&internet, &["raw_packet", internet::ATTACKER, "9001"]);
    let heard = internet.received_at(internet::ATTACKER);
    assert!(
        heard.iter().any(|heard| heard.words == "exfiltrated"),
        "{heard:?}"
    );
}
