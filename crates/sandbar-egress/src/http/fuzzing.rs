//! Fuzz entry point for the host of a request.

use http::Request;

use super::{
    Origin,
    request_target::{RequestTarget, request_target},
};
use crate::sniff::HostPort;

/// Parses a request head for each kind of connection. The resulting authority must parse to the
/// same target.
pub fn requested_host(bytes: &[u8]) {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Request::new(&mut headers);
    if !head.parse(bytes).is_ok_and(|status| status.is_complete()) {
        return;
    }
    let mut request = Request::builder()
        .uri(head.path.unwrap_or_default())
        .method(head.method.unwrap_or_default());
    for header in head.headers.iter() {
        request = request.header(header.name, header.value);
    }
    let Ok(request) = request.body(()) else {
        return;
    };
    let (head, ()) = request.into_parts();
    let (Ok(to), Ok(name)) = ("203.0.113.7:80".parse(), "a.example".parse()) else {
        return;
    };
    for origin in [
        Origin::Explicit,
        Origin::Transparent { to },
        Origin::Intercepted { name, port: 443 },
    ] {
        let default = match &origin {
            Origin::Intercepted { port, .. } => *port,
            Origin::Explicit | Origin::Transparent { .. } => 80,
        };
        if let Ok(RequestTarget { host, authority }) = request_target(&origin, &head) {
            assert_eq!(
                HostPort::parse(&authority, Some(default)),
                Some(host),
                "{authority:?}"
            );
        }
    }
}
