use std::sync::Arc;

use proptest::prelude::*;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    client::{EchGreaseConfig, EchMode},
    crypto::{aws_lc_rs, hpke::Hpke as _},
};

use super::*;

/// Returns the ClientHello of a real client.
fn real_hello(host: &str) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    first_bytes(
        config
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth(),
        host,
    )
}

/// Returns a ClientHello with GREASE ECH, as browsers send it.
fn hello_with_ech(host: &str) -> Vec<u8> {
    let suite = aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_AES_128;
    let (key, _) = suite.generate_key_pair().unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_ech(EchMode::Grease(EchGreaseConfig::new(suite, key)))
        .unwrap();
    first_bytes(
        config
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth(),
        host,
    )
}

fn first_bytes(mut config: ClientConfig, host: &str) -> Vec<u8> {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut client =
        ClientConnection::new(Arc::new(config), host.to_owned().try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

fn named(name: &str) -> Opening {
    Opening::Tls(ClientHello {
        name: Sni::Named(name.parse().unwrap()),
        has_ech: false,
    })
}

const ABSENT: Opening = Opening::Tls(ClientHello {
    name: Sni::Absent,
    has_ech: false,
});
const UNUSABLE: Opening = Opening::Tls(ClientHello {
    name: Sni::Unusable,
    has_ech: false,
});

/// Splits a ClientHello into records at these positions.
fn in_records(content: &[u8], ends: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut start = 0;
    for end in ends.iter().copied().chain([content.len()]) {
        bytes.extend_from_slice(&[22, 3, 1]);
        bytes.extend_from_slice(&u16::try_from(end - start).unwrap().to_be_bytes());
        bytes.extend_from_slice(&content[start..end]);
        start = end;
    }
    bytes
}

/// Encodes a ClientHello with these extensions; `None` is the oldest form, without any.
fn hello_with(extensions: Option<&[u8]>) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
    if let Some(extensions) = extensions {
        body.extend_from_slice(&u16::try_from(extensions.len()).unwrap().to_be_bytes());
        body.extend_from_slice(extensions);
    }
    let mut message = vec![1, 0];
    message.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
    message.extend_from_slice(&body);
    in_records(&message, &[])
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    [&kind.to_be_bytes(), &length.to_be_bytes(), content].concat()
}

fn server_names(names: &[(u8, &[u8])]) -> Vec<u8> {
    let vector = |content: &[u8]| {
        [
            &u16::try_from(content.len()).unwrap().to_be_bytes(),
            content,
        ]
        .concat()
    };
    let entries: Vec<Vec<u8>> = names
        .iter()
        .map(|(kind, name)| [vec![*kind], vector(name)].concat())
        .collect();
    extension(0, &vector(&entries.concat()))
}

fn server_name(name: &[u8]) -> Vec<u8> {
    server_names(&[(0, name)])
}

#[test]
fn partial_client_hello_is_unfinished() {
    let hello = real_hello("Api.Example.com");
    for cut in 0..hello.len() {
        assert_eq!(
            opening(&hello[..cut]),
            Opening::Unfinished,
            "{cut} of {}",
            hello.len()
        );
    }
    assert_eq!(opening(&hello), named("api.example.com"));
    // Bytes after it, such as early data, do not matter.
    assert_eq!(
        opening(&[hello.as_slice(), b"\x17\x03\x03\x00\x01x"].concat()),
        named("api.example.com")
    );
    assert_eq!(opening(&real_hello("203.0.113.7")), ABSENT);
}

#[test]
fn encrypted_client_hello_is_detected() {
    let expected = ClientHello {
        name: Sni::Named("api.example.com".parse().unwrap()),
        has_ech: true,
    };
    assert_eq!(
        opening(&hello_with_ech("api.example.com")),
        Opening::Tls(expected)
    );
    for kind in [0xfe0d, 0xffce] {
        let hello = hello_with(Some(
            &[server_name(b"a.example"), extension(kind, b"x")].concat(),
        ));
        assert!(matches!(
            opening(&hello),
            Opening::Tls(ClientHello { has_ech: true, .. })
        ));
    }
}

#[test]
fn client_hello_without_sni_has_no_name() {
    assert_eq!(opening(&hello_with(None)), ABSENT);
    assert_eq!(opening(&hello_with(Some(b""))), ABSENT);
    assert_eq!(
        opening(&hello_with(Some(&extension(16, b"\0\x03\x02h2")))),
        ABSENT
    );
    // SSL 2, and SSL 2 that offers newer versions.
    for old in [
        &b"\x80\x2e\x01\x00\x02\x00\x15"[..],
        b"\x80\x2e\x01\x03\x01\x00\x15",
        b"\x80\x2e\x01\x03\x03",
    ] {
        assert_eq!(opening(old), ABSENT);
        assert_eq!(opening(&old[..4]), Opening::Unfinished);
    }
}

#[test]
fn ambiguous_sni_is_unusable() {
    assert_eq!(
        opening(&hello_with(Some(&server_name(b"a.example")))),
        named("a.example")
    );
    let long = [b'a'; 300];
    let bad = [
        server_name(b""),
        server_name(b"203.0.113.7"),
        server_name(b"2001:db8::1"),
        server_name(b"[::1]"),
        server_name(b"127.1"),
        server_name(b"a.example:443"),
        server_name(b"a..example"),
        server_name(b"a.example\0.evil.example"),
        server_name(b"\xff.example"),
        server_name("ü.example".as_bytes()),
        server_name(&long),
        server_names(&[]),
        server_names(&[(0, b"a.example"), (0, b"b.example")]),
        server_names(&[(0, b"a.example"), (1, b"b.example")]),
        server_names(&[(1, b"a.example")]),
        [server_name(b"a.example"), server_name(b"b.example")].concat(),
        [server_name(b"a.example"), server_name(b"a.example")].concat(),
        extension(0, b""),
        extension(0, b"\0\x05\0\0\x01a"),
        extension(0, b"\0\x04\0\0\x02a"),
        extension(0, b"\0\x04\0\0\x01ax"),
        [server_name(b"a.example"), vec![0]].concat(),
        [server_name(b"a.example"), b"\0\x10\0\x05x".to_vec()].concat(),
    ];
    for extensions in bad {
        assert_eq!(
            opening(&hello_with(Some(&extensions))),
            UNUSABLE,
            "{extensions:?}"
        );
    }
}

#[test]
fn malformed_tls_stays_tls() {
    let good = hello_with(Some(&server_name(b"a.example")));
    let with = |place: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[place] = value;
        bytes
    };
    for (what, bytes) in [
        ("a record version", with(2, 5)),
        ("an empty record", b"\x16\x03\x01\0\0".to_vec()),
        ("a long record", b"\x16\x03\x01\x40\x01".to_vec()),
        ("another handshake message", with(5, 2)),
        ("a huge message", with(6, 1)),
        (
            "a message that ends inside its record",
            with(8, good[8] - 1),
        ),
        ("a hello version", with(9, 2)),
        ("a long session id", with(43, 33)),
        ("an odd length of suites", with(45, 1)),
        ("no suites", with(45, 0)),
        ("an alert first", b"\x15\x03\x01\0\x02\x01\x5a".to_vec()),
        (
            "a change of ciphers first",
            b"\x14\x03\x01\0\x01\x01".to_vec(),
        ),
        ("data first", b"\x17\x03\x03\0\x01\x01".to_vec()),
        ("another version", b"\x16\x04\x01".to_vec()),
        (
            "an alert between",
            [
                &in_records(&good[5..], &[10])[..15],
                b"\x15\x03\x01\0\x02\x01\x5a",
            ]
            .concat(),
        ),
        (
            "an endless hello",
            [
                b"\x16\x03\x01\0\x04\x01\0\xff\xff".to_vec(),
                b"\x16\x03\x01\0\x01a".repeat(11_000),
            ]
            .concat(),
        ),
    ] {
        assert_eq!(opening(&bytes), UNUSABLE, "{what}");
    }
}

#[test]
fn oddly_spelled_requests_are_http() {
    for request in [
        "GET / HTTP/1.1\r\n",
        "GET /",
        "get / http/1.1\r\n",
        "\r\n\r\nPOST / HTTP/1.1\r\n",
        "\n \t GET / HTTP/1.1\r\n",
        "GET\t/ HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "M-SEARCH * HTTP/1.1\r\n",
        "X_Y / HTTP/1.0\n",
        "purge / http/1.1\r\n",
        "PROPFIND http://evil.example/ HTTP/1.1\r\n",
        "M0VE! / HTTP/1.1\r\n",
        "GET/ HTTP/1.1\r\n",
        "GET(x) / HTTP/1.1\n",
    ] {
        assert_eq!(opening(request.as_bytes()), Opening::Http, "{request:?}");
        let decided = (0..request.len())
            .find(|cut| opening(&request.as_bytes()[..*cut]) != Opening::Unfinished);
        if let Some(cut) = decided {
            assert_eq!(
                opening(&request.as_bytes()[..cut]),
                Opening::Http,
                "{request:?} at {cut}"
            );
        }
    }
    assert_eq!(opening(&vec![b' '; MAX_OPENING_BYTES]), Opening::Http);
    assert_eq!(opening(&vec![b'A'; MAX_OPENING_BYTES]), Opening::Http);
}

#[test]
fn cut_tls_and_http_may_carry_a_name() {
    let hello = real_hello("a.example");
    for cut in 1..hello.len() {
        assert!(may_carry_name(&hello[..cut]), "{cut}");
    }
    for cut in [
        &b"GE"[..],
        b"post",
        b"\r\n\r\nGET",
        b"GET / HTTP/1.1",
        b"PURGE / HTTP/1.1",
        b"\x16",
        b"\x80\x2e\x01",
    ] {
        assert!(may_carry_name(cut), "{}", cut.escape_ascii());
    }
    for other in [
        &b""[..],
        b"\r\n",
        b"EHLO box",
        b"PING",
        b"SSH-2.0-x",
        b"\x05\x01",
        b"echo",
    ] {
        assert!(!may_carry_name(other), "{}", other.escape_ascii());
    }
}

#[test]
fn other_protocols_are_neither_tls_nor_http() {
    for other in [
        &b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"[..],
        b"SSH-2.0-Go\r\n",
        b"EHLO box.example\r\n",
        b"USER anonymous\r\n",
        b"a001 LOGIN user word\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"PING\r\n",
        b"0033git-upload-pack /project.git\0host=git.example\0",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"\x03\0\0\x13\x0e\xe0\0\0",
        b"\x05\x01\0",
        b"\x10\x0c\0\x04MQTT",
        b"AMQP\0\0\x09\x01",
        b"\x80\x2e\x02",
        b"\xff\xfb\x01\xff\xfb\x03",
        b"{}",
    ] {
        assert_eq!(opening(other), Opening::Other, "{}", other.escape_ascii());
    }
    for undecided in [
        &b""[..],
        b"\r\n",
        b"G",
        b"EHLO box",
        b"\x16",
        b"\x80\x2e",
        b"\x15",
    ] {
        assert_eq!(
            opening(undecided),
            Opening::Unfinished,
            "{}",
            undecided.escape_ascii()
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decided_at_the_limit(bytes in prop::collection::vec(any::<u8>(), 0..400), filler in any::<u8>()) {
        let hello = hello_with(Some(&server_name(b"a.example")));
        for start in [&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\0\x80\x01\0\0\x70", b"GET", &hello[..50]] {
            let mut whole = [start, &bytes].concat();
            let early = opening(&whole);
            let _ = proxy_request(&whole);
            whole.resize(MAX_OPENING_BYTES, filler);
            prop_assert_ne!(opening(&whole), Opening::Unfinished);
            prop_assert_ne!(proxy_request(&whole), ProxyOpening::Unfinished);
            if start.first() == Some(&0x16) {
                prop_assert!(matches!(early, Opening::Tls(_) | Opening::Unfinished));
            }
        }
    }

    /// More bytes must not change a decision.
    #[test]
    fn more_bytes_change_no_decision(bytes in prop::collection::vec(any::<u8>(), 1..60), cut in 0_usize..60) {
        let early = opening(&bytes[..cut.min(bytes.len())]);
        if early != Opening::Unfinished {
            prop_assert_eq!(opening(&bytes), early);
        }
    }

    #[test]
    fn sni_does_not_depend_on_record_boundaries(
        mut ends in prop::collection::btree_set(1_usize..200, 0..20),
        cut in 0_usize..2000,
    ) {
        let content = real_hello("api.example.com")[5..].to_vec();
        ends.retain(|end| *end < content.len());
        let hello = in_records(&content, &ends.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(opening(&hello), named("api.example.com"));
        prop_assert_eq!(opening(&hello[..cut % hello.len()]), Opening::Unfinished);
    }

    #[test]
    fn client_hello_with_one_wrong_byte_stays_tls(place in 1_usize..100, value in any::<u8>()) {
        let mut hello = hello_with(Some(&server_name(b"a.example")));
        let place = place % hello.len();
        if place > 0 {
            hello[place] = value;
        }
        prop_assert!(matches!(opening(&hello), Opening::Tls(_) | Opening::Unfinished));
    }
}
