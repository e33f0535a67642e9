//! Cross-origin requests: the SDKs also run in web pages. Any origin is allowed, because every call
//! needs a key or a token in a header and never a cookie.

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

/// Allows everything except credentials that a browser attaches by itself (cookies).
const ANY: HeaderValue = HeaderValue::from_static("*");

/// Seconds for which a browser may cache the response to a preflight.
const PREFLIGHT_MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Returns the response to a preflight; `None` if the request is not one.
pub(crate) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
    if method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let allowed = response.headers_mut();
    allowed.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE"),
    );
    // Echoed: `*` would not cover `authorization`, which names the user.
    if let Some(requested) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        allowed.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
    }
    allowed.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE);
    allow(allowed);
    Some(response)
}

/// Returns whether a preflight asks to send a header. The preflight itself does not carry it.
pub(crate) fn preflight_requests(method: &Method, headers: &HeaderMap, name: &HeaderName) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && headers
            .get_all(header::ACCESS_CONTROL_REQUEST_HEADERS)
            .iter()
            .any(|requested| {
                let requested = requested.to_str().unwrap_or_default();
                requested
                    .split(',')
                    .any(|requested| requested.trim().eq_ignore_ascii_case(name.as_str()))
            })
}

/// Lets scripts of any origin read a response.
pub(crate) fn allow(headers: &mut HeaderMap) {
    for name in [
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
    ] {
        let _: Option<HeaderValue> = headers.insert::<HeaderName>(name, ANY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_preflight_is_answered_as_one() {
        let asks = HeaderMap::from_iter([
            (
                header::ACCESS_CONTROL_REQUEST_METHOD,
                HeaderValue::from_static("POST"),
            ),
            (
                header::ACCESS_CONTROL_REQUEST_HEADERS,
                HeaderValue::from_static("authorization,x-access-token"),
            ),
        ]);
        let response = preflight(&Method::OPTIONS, &asks).unwrap();
        assert_eq!(
            response.headers()[header::ACCESS_CONTROL_ALLOW_HEADERS],
            "authorization,x-access-token"
        );
        assert_eq!(response.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert!(preflight(&Method::OPTIONS, &HeaderMap::new()).is_none());
        assert!(preflight(&Method::POST, &asks).is_none());
    }
}
