//! A way to the requests for sessions for the fuzzer.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::HeaderName;

use super::{entry, headers, target, visit};
use crate::{access::Peer, entrance::Transport, fuzzing::request};

/// A request to some host: which session it is for, and what the session sees of it.
pub fn ingress_request(bytes: &[u8]) {
    let Some(mut request) = request(bytes) else { return };
    let Ok(domain) = "boxes.example".parse() else { return };
    if let Ok(Some(target)) = target::of(&request, &domain) {
        assert!(target.port > 0, "{target:?}");
    }
    let _ = visit::begin(&request, |token| token == b"right");
    let peer = Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));
    headers::prepare(request.headers_mut(), |value| value == b"Bearer right", peer, Transport::Plain);
    let kept = |name: &HeaderName| request.headers().contains_key(name);
    assert!(!kept(&entry::TOKEN) && !kept(&entry::TRAFFIC_TOKEN), "{:?}", request.headers());
    assert_eq!(visit::cookies(request.headers()).count(), 0, "{:?}", request.headers());
}
