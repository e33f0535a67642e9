//! Ways into the readers of this crate for the fuzzer. Each takes any bytes, and panics where a promise is broken.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request};

use crate::access::Gatekeeper;
pub use crate::ingress::ingress_request;

/// The headers a call is let in by. Nobody guesses the token.
pub fn access_headers(bytes: &[u8]) {
    let Some(gatekeeper) = Gatekeeper::for_fuzzing() else { return };
    let Some(request) = request(bytes) else { return };
    assert!(gatekeeper.check(request.headers()).is_err(), "{:?}", request.headers());
}

/// A request from text: its target, then a header a line.
pub(crate) fn request(bytes: &[u8]) -> Option<Request<()>> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut headers = HeaderMap::new();
    let target = lines.next()?;
    for line in lines.take(64) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        headers.append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?);
    }
    let mut request = Request::builder().uri(target).body(()).ok()?;
    *request.headers_mut() = headers;
    Some(request)
}
