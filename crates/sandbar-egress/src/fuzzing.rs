//! Fuzz entry points for the parsers of this crate. Each takes any bytes and panics if an invariant
//! is broken.

use crate::sniff::{HostPort, MAX_OPENING_BYTES, Opening, ProxyOpening, opening, proxy_request};
pub use crate::{
    dns::fuzzing::{dns_answer, dns_message},
    http::fuzzing::requested_host,
};
pub use sandbar_resolver::fuzzing::{hosts_file, resolver_file};

/// Classifies the first bytes of a connection.
pub fn connection_opening(bytes: &[u8]) {
    let whole = opening(bytes);
    assert!(
        whole != Opening::Unfinished || bytes.len() < MAX_OPENING_BYTES,
        "still undecided at the limit"
    );
    // More bytes must not change a decision.
    for cut in [bytes.len() / 2, bytes.len().saturating_sub(1)] {
        let before = opening(&bytes[..cut]);
        assert!(
            before == Opening::Unfinished || before == whole,
            "{before:?} became {whole:?}"
        );
    }
}

/// Parses the head of a request to the proxy.
pub fn proxy_opening(bytes: &[u8]) {
    match proxy_request(bytes) {
        ProxyOpening::Unfinished => assert!(
            bytes.len() < MAX_OPENING_BYTES,
            "still undecided at the limit"
        ),
        ProxyOpening::Connect { target, head } => {
            assert!(
                head <= bytes.len() && target.port() > 0,
                "a tunnel to `{target}` after {head} bytes"
            );
        }
        ProxyOpening::Other | ProxyOpening::Bad(_) => {}
    }
}

/// Parses `host:port`.
pub fn host_and_port(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for default in [None, Some(443)] {
        if let Some(read) = HostPort::parse(text, default) {
            assert_eq!(
                HostPort::parse(&read.to_string(), None).as_ref(),
                Some(&read),
                "{text:?}"
            );
        }
    }
}
