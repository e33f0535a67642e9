//! Pages of other origins, in which the SDKs run as well: what they do takes a key or a token, never a cookie.

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

/// Everything that is not credentials a browser keeps by itself.
const ANY: HeaderValue = HeaderValue::from_static("*");

/// How long a browser remembers what it may send, in seconds.
const REMEMBERED: HeaderValue = HeaderValue::from_static("7200");

/// The answer to a browser that asks whether it may send something.
pub(crate) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
    if method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let told = answer.headers_mut();
    told.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE"));
    // As it asked: `*` leaves out `authorization`, which names the user.
    if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        told.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    told.insert(header::ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    allow(told);
    Some(answer)
}

/// Whether a browser asks for leave to send a header: what it will send is not in the question itself.
pub(crate) fn asks_to_send(method: &Method, headers: &HeaderMap, name: &HeaderName) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && headers.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter().any(|wanted| {
            let wanted = wanted.to_str().unwrap_or_default();
            wanted.split(',').any(|wanted| wanted.trim().eq_ignore_ascii_case(name.as_str()))
        })
}

/// Lets scripts of every page read an answer.
pub(crate) fn allow(headers: &mut HeaderMap) {
    for name in [header::ACCESS_CONTROL_ALLOW_ORIGIN, header::ACCESS_CONTROL_EXPOSE_HEADERS] {
        let _: Option<HeaderValue> = headers.insert::<HeaderName>(name, ANY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_browser_that_asks_is_answered_in_advance() {
        let asks = HeaderMap::from_iter([
            (header::ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("POST")),
            (header::ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static("authorization,x-access-token")),
        ]);
        let answer = preflight(&Method::OPTIONS, &asks).unwrap();
        assert_eq!(answer.headers()[header::ACCESS_CONTROL_ALLOW_HEADERS], "authorization,x-access-token");
        assert_eq!(answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert!(preflight(&Method::OPTIONS, &HeaderMap::new()).is_none());
        assert!(preflight(&Method::POST, &asks).is_none());
    }
}
