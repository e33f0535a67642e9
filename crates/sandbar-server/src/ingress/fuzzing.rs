//! Entry point of the fuzzer into ingress requests.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::HeaderName;

use super::{cookie, headers, port_auth, target};
use crate::{access::Peer, fuzzing::request, http::Transport};

/// Parses the target of a request, and checks that no credential of this host is forwarded.
pub fn ingress_request(bytes: &[u8]) {
    let Some(mut request) = request(bytes) else {
        return;
    };
    let Ok(domain) = "boxes.example".parse() else {
        return;
    };
    if let Ok(Some(target)) = target::of(&request, &domain) {
        assert!(target.port > 0, "{target:?}");
    }
    let _ = cookie::exchange(&request, |token| token == b"right");
    let peer = Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));
    headers::prepare(
        request.headers_mut(),
        |value| value == b"Bearer right",
        peer,
        Transport::Plain,
    );
    let kept = |name: &HeaderName| request.headers().contains_key(name);
    assert!(
        !kept(&port_auth::TOKEN) && !kept(&port_auth::TRAFFIC_TOKEN),
        "{:?}",
        request.headers()
    );
    assert_eq!(
        cookie::cookies(request.headers()).count(),
        0,
        "{:?}",
        request.headers()
    );
}
