//! Hop-by-hop headers, and conversions between HTTP/1.1 and HTTP/2.

use http::{
    HeaderMap, HeaderName, HeaderValue, Uri, Version,
    header::{
        CONNECTION, CONTENT_LENGTH, COOKIE, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
        TRANSFER_ENCODING, UPGRADE,
    },
    request::Parts,
    uri::{PathAndQuery, Scheme},
};

use super::request_target::RequestTarget;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_AUTHENTICATION_INFO,
    HTTP2_SETTINGS,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes the hop-by-hop headers: the standard ones, and those listed in `Connection`.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let accepts_trailers =
        list_entries(headers, &TE).any(|entry| entry.eq_ignore_ascii_case("trailers"));
    let listed: Vec<HeaderName> = list_entries(headers, &CONNECTION)
        .filter_map(|entry| HeaderName::from_bytes(entry.as_bytes()).ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&listed) {
        headers.remove(name);
    }
    if accepts_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Iterates over the entries of a list header, which may have several lines.
pub(super) fn list_entries<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let lines = headers
        .get_all(name)
        .into_iter()
        .filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

/// Whether a request has a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestBody {
    Absent,
    Present,
}

/// Converts a request head to HTTP/1.1.
pub(super) fn to_http1(head: &mut Parts, target: &RequestTarget, body: RequestBody) {
    head.version = Version::HTTP_11;
    head.uri = Uri::from(path(&head.uri));
    if let Ok(host) = HeaderValue::from_str(&target.authority) {
        head.headers.insert(HOST, host);
    }
    // Without a length a body is chunked, whatever the method; hyper would drop the body of a GET.
    if body == RequestBody::Present && !head.headers.contains_key(CONTENT_LENGTH) {
        head.headers
            .insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    // HTTP/2 may split cookies into several headers; HTTP/1.1 requires one (RFC 9113, 8.2.3).
    let cookies: Vec<&[u8]> = head
        .headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if cookies.len() > 1
        && let Ok(line) = HeaderValue::from_bytes(&cookies.join(b"; ".as_slice()))
    {
        head.headers.insert(COOKIE, line);
    }
}

/// Converts a request head to HTTP/2, which is used over TLS only.
pub(super) fn to_http2(head: &mut Parts, target: &RequestTarget) {
    head.version = Version::HTTP_2;
    head.headers.remove(HOST);
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = target.authority.parse().ok();
    parts.path_and_query = Some(path(&head.uri));
    if let Ok(uri) = Uri::from_parts(parts) {
        head.uri = uri;
    }
}

/// Returns the path for a request line; `/` if it is empty, as in `http://a.example#x`.
fn path(uri: &Uri) -> PathAndQuery {
    let found = uri
        .path_and_query()
        .filter(|found| !Uri::from((*found).clone()).path().is_empty());
    found
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let name = |text: &str| HeaderName::from_bytes(text.as_bytes()).unwrap();
        lines
            .iter()
            .map(|(key, value)| (name(key), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut map = headers(&[
            ("Connection", "close, X-Private"),
            ("X-Private", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("Proxy-Authorization", "Basic eA=="),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "AAMAAABk"),
            ("TE", "gzip, trailers"),
            ("Trailer", "X-Sum"),
            ("Accept", "*/*"),
        ]);
        map.append("Connection", "x-other".parse().unwrap());
        map.insert("x-other", "1".parse().unwrap());
        strip_hop_by_hop(&mut map);
        assert_eq!(
            map,
            headers(&[("te", "trailers"), ("trailer", "X-Sum"), ("accept", "*/*")])
        );
    }

    #[test]
    fn uri_without_path_becomes_root() {
        let target = RequestTarget {
            host: crate::sniff::HostPort::parse("a.example:80", None).unwrap(),
            authority: "a.example".into(),
        };
        for (uri, asked) in [
            ("http://a.example#x", "/"),
            ("http://a.example", "/"),
            ("http://a.example/y#x", "/y"),
            ("http://a.example?z#x", "/?z"),
        ] {
            let (mut head, ()) = http::Request::builder()
                .uri(uri)
                .body(())
                .unwrap()
                .into_parts();
            to_http1(&mut head, &target, RequestBody::Absent);
            assert_eq!(head.uri.to_string(), asked, "{uri}");
        }
    }

    #[test]
    fn split_cookies_become_one_header() {
        let request = http::Request::builder()
            .uri("https://a.example/x?y")
            .header("cookie", "a=1")
            .header("cookie", "b=2");
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        let target = RequestTarget {
            host: crate::sniff::HostPort::parse("a.example:443", None).unwrap(),
            authority: "a.example".into(),
        };
        to_http1(&mut head, &target, RequestBody::Absent);
        assert_eq!(head.uri, "/x?y");
        assert_eq!(
            head.headers,
            headers(&[("host", "a.example"), ("cookie", "a=1; b=2")])
        );
        to_http2(&mut head, &target);
        assert_eq!(head.uri, "https://a.example/x?y");
        assert!(!head.headers.contains_key(HOST));
    }
}
