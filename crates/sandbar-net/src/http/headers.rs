//! Headers that belong to one connection, and those that each version of HTTP wants.

use http::{
    HeaderMap, HeaderName, HeaderValue, Uri, Version,
    header::{
        CONNECTION, CONTENT_LENGTH, COOKIE, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING,
        UPGRADE,
    },
    request::Parts,
    uri::{PathAndQuery, Scheme},
};

use super::requested::Requested;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

const OF_ONE_CONNECTION: [HeaderName; 10] = [
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

/// Takes away what was meant for this connection only: the well-known ones, and those `Connection` lists.
pub(super) fn strip_connection(headers: &mut HeaderMap) {
    let takes_trailers = lists(headers, &TE).any(|entry| entry.eq_ignore_ascii_case("trailers"));
    let listed: Vec<HeaderName> =
        lists(headers, &CONNECTION).filter_map(|entry| HeaderName::from_bytes(entry.as_bytes()).ok()).collect();
    for name in OF_ONE_CONNECTION.iter().chain(&listed) {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// The entries of a header that is a list, also over several lines.
pub(super) fn lists<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|entry| !entry.is_empty())
}

/// Makes a head fit for a connection that speaks HTTP/1.1.
pub(super) fn fit_http1(head: &mut Parts, requested: &Requested, has_body: bool) {
    head.version = Version::HTTP_11;
    head.uri = Uri::from(path(&head.uri));
    if let Ok(host) = HeaderValue::from_str(&requested.authority) {
        head.headers.insert(HOST, host);
    }
    // Without a length a body is chunked, whatever the method; hyper would drop that of a GET.
    if has_body && !head.headers.contains_key(CONTENT_LENGTH) {
        head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    // HTTP/2 may send cookies one by one, HTTP/1.1 knows them on one line only.
    let cookies: Vec<&[u8]> = head.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1
        && let Ok(line) = HeaderValue::from_bytes(&cookies.join(b"; ".as_slice()))
    {
        head.headers.insert(COOKIE, line);
    }
}

/// Makes a head fit for a connection that speaks HTTP/2, which is always a TLS one.
pub(super) fn fit_http2(head: &mut Parts, requested: &Requested) {
    head.version = Version::HTTP_2;
    head.headers.remove(HOST);
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = requested.authority.parse().ok();
    parts.path_and_query = Some(path(&head.uri));
    if let Ok(uri) = Uri::from_parts(parts) {
        head.uri = uri;
    }
}

/// The path of a request line. It is empty in `http://a.example#x`: what follows `#` is not part of a request.
fn path(uri: &Uri) -> PathAndQuery {
    let found = uri.path_and_query().filter(|found| !Uri::from((*found).clone()).path().is_empty());
    found.cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let name = |text: &str| HeaderName::from_bytes(text.as_bytes()).unwrap();
        lines.iter().map(|(key, value)| (name(key), value.parse().unwrap())).collect()
    }

    #[test]
    fn what_was_meant_for_one_connection_stays_on_it() {
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
        strip_connection(&mut map);
        assert_eq!(map, headers(&[("te", "trailers"), ("trailer", "X-Sum"), ("accept", "*/*")]));
    }

    #[test]
    fn uri_without_a_path_asks_for_the_root() {
        let requested = Requested {
            target: crate::sniff::HostPort::parse("a.example:80", None).unwrap(),
            authority: "a.example".into(),
        };
        for (uri, asked) in [
            ("http://a.example#x", "/"),
            ("http://a.example", "/"),
            ("http://a.example/y#x", "/y"),
            ("http://a.example?z#x", "/?z"),
        ] {
            let (mut head, ()) = http::Request::builder().uri(uri).body(()).unwrap().into_parts();
            fit_http1(&mut head, &requested, false);
            assert_eq!(head.uri.to_string(), asked, "{uri}");
        }
    }

    #[test]
    fn cookies_that_came_one_by_one_become_one_line() {
        let request =
            http::Request::builder().uri("https://a.example/x?y").header("cookie", "a=1").header("cookie", "b=2");
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        let requested = Requested {
            target: crate::sniff::HostPort::parse("a.example:443", None).unwrap(),
            authority: "a.example".into(),
        };
        fit_http1(&mut head, &requested, false);
        assert_eq!(head.uri, "/x?y");
        assert_eq!(head.headers, headers(&[("host", "a.example"), ("cookie", "a=1; b=2")]));
        fit_http2(&mut head, &requested);
        assert_eq!(head.uri, "https://a.example/x?y");
        assert!(!head.headers.contains_key(HOST));
    }
}
