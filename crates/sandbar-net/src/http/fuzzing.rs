//! A way to the host of a request for the fuzzer.

use http::Request;

use super::{
    Origin,
    requested::{Requested, requested},
};
use crate::sniff::HostPort;

/// The head of a request, by each of the ways requests come: the host found in it is found in what is said of it.
pub fn requested_host(bytes: &[u8]) {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Request::new(&mut headers);
    if !head.parse(bytes).is_ok_and(|status| status.is_complete()) {
        return;
    }
    let mut request = Request::builder().uri(head.path.unwrap_or_default()).method(head.method.unwrap_or_default());
    for header in head.headers.iter() {
        request = request.header(header.name, header.value);
    }
    let Ok(request) = request.body(()) else { return };
    let (head, ()) = request.into_parts();
    let (Ok(to), Ok(name)) = ("203.0.113.7:80".parse(), "a.example".parse()) else { return };
    for origin in [Origin::Explicit, Origin::Transparent { to }, Origin::Intercepted { name, port: 443 }] {
        let default = match &origin {
            Origin::Intercepted { port, .. } => *port,
            Origin::Explicit | Origin::Transparent { .. } => 80,
        };
        if let Ok(Requested { target, authority }) = requested(&origin, &head) {
            assert_eq!(HostPort::parse(&authority, Some(default)), Some(target), "{authority:?}");
        }
    }
}
