//! Entry points of the fuzzer into the parsers of this crate. Each takes arbitrary bytes, and
//! panics when an invariant is violated.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, header};

use crate::access::{bearer_token, check_version};
pub use crate::ingress::ingress_request;

/// Parses the headers that authenticate a request. The token must be a suffix of the header.
pub fn access_headers(bytes: &[u8]) {
    let Some(request) = request(bytes) else {
        return;
    };
    let _ = check_version(request.headers());
    if let Some(value) = request.headers().get(header::AUTHORIZATION)
        && let Some(token) = bearer_token(value.as_bytes())
    {
        assert!(value.as_bytes().ends_with(token), "{value:?}");
    }
}

/// Builds a request from text: its target, then one header a line.
pub(crate) fn request(bytes: &[u8]) -> Option<Request<()>> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut headers = HeaderMap::new();
    let target = lines.next()?;
    for line in lines.take(64) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        headers.append(
            name,
            HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?,
        );
    }
    let mut request = Request::builder().uri(target).body(()).ok()?;
    *request.headers_mut() = headers;
    Some(request)
}
