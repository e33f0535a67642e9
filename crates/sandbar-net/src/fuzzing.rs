//! Ways into the readers of this crate for the fuzzer. Each takes any bytes, and panics where a promise is broken.

use crate::sniff::{HostPort, MOST_OPENING, Opening, ProxyOpening, opening, proxy_request};
pub use crate::{
    dns::fuzzing::{dns_answer, dns_message},
    http::fuzzing::requested_host,
};
pub use sandbar_resolver::fuzzing::{hosts_file, resolver_file};

/// The first bytes of a connection: TLS, HTTP or something else.
pub fn connection_opening(bytes: &[u8]) {
    let whole = opening(bytes);
    assert!(whole != Opening::Unfinished || bytes.len() < MOST_OPENING, "undecided for ever");
    // What was decided is not decided otherwise when more comes.
    for cut in [bytes.len() / 2, bytes.len().saturating_sub(1)] {
        let before = opening(&bytes[..cut]);
        assert!(before == Opening::Unfinished || before == whole, "{before:?} became {whole:?}");
    }
}

/// The head of a request to the proxy.
pub fn proxy_opening(bytes: &[u8]) {
    match proxy_request(bytes) {
        ProxyOpening::Unfinished => assert!(bytes.len() < MOST_OPENING, "undecided for ever"),
        ProxyOpening::Connect { target, head } => {
            assert!(head <= bytes.len() && target.port() > 0, "a tunnel to `{target}` after {head} bytes");
        }
        ProxyOpening::Other | ProxyOpening::Bad(_) => {}
    }
}

/// `host:port`.
pub fn host_and_port(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for default in [None, Some(443)] {
        if let Some(read) = HostPort::parse(text, default) {
            assert_eq!(HostPort::parse(&read.to_string(), None).as_ref(), Some(&read), "{text:?}");
        }
    }
}
