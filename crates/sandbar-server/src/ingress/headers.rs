//! Headers of forwarded requests: hop-by-hop headers and credentials of this host are removed.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{
    cookie,
    port_auth::{TOKEN, TRAFFIC_TOKEN},
    target::{PORT, SESSION},
};
use crate::{access::Peer, http::Transport};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Routing and token headers of E2B clients.
const E2B_HEADERS: [HeaderName; 3] = [
    sandbar_e2b::SANDBOX,
    sandbar_e2b::PORT,
    sandbar_e2b::TRAFFIC_TOKEN,
];

/// Hop-by-hop headers (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Returns the protocol of an `upgrade` request or response.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = named_by_connection(headers).any(|name| name == header::UPGRADE);
    // Requests inside an h2c connection would bypass the access check and header filter.
    headers
        .get(header::UPGRADE)
        .filter(|value| asks && !value.as_bytes().eq_ignore_ascii_case(b"h2c"))
        .cloned()
}

/// Removes hop-by-hop headers, and those that `connection` names.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = named_by_connection(headers).collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Sets the headers of a protocol upgrade.
pub(super) fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// Rewrites the headers of a request for the session. `is_host_token` reports whether an
/// `authorization` header holds a token of this host.
pub(super) fn prepare(
    headers: &mut HeaderMap,
    is_host_token: impl Fn(&[u8]) -> bool,
    peer: Peer,
    transport: Transport,
) {
    let accepts_trailers = headers
        .get_all(header::TE)
        .iter()
        .any(|value| contains_token(value, "trailers"));
    remove_hop_by_hop(headers);
    // hyper answers `expect` itself, and `te` describes this hop.
    for name in [
        SESSION,
        PORT,
        TOKEN,
        TRAFFIC_TOKEN,
        header::EXPECT,
        header::TE,
    ]
    .iter()
    .chain(&E2B_HEADERS)
    {
        headers.remove(name);
    }
    if accepts_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    // `authorization` belongs to the application. But a client may have sent a token of this host,
    // which the session must not see.
    if headers
        .get(header::AUTHORIZATION)
        .is_some_and(|value| is_host_token(value.as_bytes()))
    {
        headers.remove(header::AUTHORIZATION);
    }
    cookie::remove_cookie(headers);
    add_forwarded(headers, peer, transport);
}

/// Adds `x-forwarded-*`. Host and protocol that a proxy before us has set are kept.
fn add_forwarded(headers: &mut HeaderMap, Peer(address): Peer, transport: Transport) {
    let mut chain: Vec<String> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|value| Some(value.to_str().ok()?.to_owned()))
        .collect();
    chain.push(address.to_string());
    if let Ok(chain) = HeaderValue::from_str(&chain.join(", ")) {
        headers.insert(FORWARDED_FOR, chain);
    }
    if let Some(host) = headers.get(header::HOST).cloned() {
        headers.entry(FORWARDED_HOST).or_insert(host);
    }
    let scheme = if transport == Transport::Tls {
        "https"
    } else {
        "http"
    };
    headers
        .entry(FORWARDED_PROTO)
        .or_insert(HeaderValue::from_static(scheme));
}

fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let fields = headers.get_all(header::CONNECTION).into_iter();
    let words = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    words.filter_map(|word| HeaderName::from_bytes(word.trim_ascii()).ok())
}

fn contains_token(value: &HeaderValue, wanted: &str) -> bool {
    let words = value.as_bytes().split(|byte| matches!(byte, b',' | b';'));
    words
        .map(<[u8]>::trim_ascii)
        .any(|word| word.eq_ignore_ascii_case(wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn hop_by_hop_headers_and_host_credentials_are_removed() {
        let bearer = "Bearer of-the-host";
        let mut headers = map(&[
            ("host", "80-s.localhost:9100"),
            ("connection", "close, X-Private"),
            ("connection", "upgrade"),
            ("x-private", "1"),
            ("upgrade", "websocket"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("te", "deflate, trailers"),
            ("trailer", "x-sum"),
            ("expect", "100-continue"),
            ("x-sandbar-session", "s"),
            ("x-sandbar-port", "80"),
            ("x-sandbar-token", "of-the-host"),
            ("x-sandbar-traffic-token", "sbt_x"),
            ("e2b-sandbox-id", "s"),
            ("e2b-sandbox-port", "80"),
            ("e2b-traffic-access-token", "sbt_x"),
            ("authorization", bearer),
            ("cookie", "sandbar_traffic_token=x; mine=1"),
            ("x-forwarded-for", "192.0.2.9"),
        ]);
        assert_eq!(upgrade(&headers).unwrap(), "websocket");
        let peer = Peer("127.0.0.1".parse().unwrap());
        prepare(
            &mut headers,
            |value| value == bearer.as_bytes(),
            peer,
            Transport::Plain,
        );
        let expected = map(&[
            ("host", "80-s.localhost:9100"),
            ("trailer", "x-sum"),
            ("te", "trailers"),
            ("cookie", "mine=1"),
            ("x-forwarded-for", "192.0.2.9, 127.0.0.1"),
            ("x-forwarded-host", "80-s.localhost:9100"),
            ("x-forwarded-proto", "http"),
        ]);
        assert_eq!(headers, expected);
    }

    #[test]
    fn headers_of_the_application_are_forwarded() {
        let mut headers = map(&[
            ("authorization", "Bearer of-the-application"),
            ("x-forwarded-proto", "https"),
        ]);
        prepare(
            &mut headers,
            |value| value == b"Bearer of-the-host",
            Peer("::1".parse().unwrap()),
            Transport::Plain,
        );
        assert_eq!(headers["authorization"], "Bearer of-the-application");
        assert_eq!(headers["x-forwarded-proto"], "https");
    }

    #[test]
    fn forwarded_proto_is_https_over_tls() {
        let mut headers = HeaderMap::new();
        prepare(
            &mut headers,
            |_| false,
            Peer("::1".parse().unwrap()),
            Transport::Tls,
        );
        assert_eq!(headers["x-forwarded-proto"], "https");
    }

    #[test]
    fn upgrade_needs_the_connection_header_and_is_never_h2c() {
        assert!(upgrade(&map(&[("upgrade", "websocket")])).is_none());
        assert!(
            upgrade(&map(&[
                ("connection", "Upgrade, HTTP2-Settings"),
                ("upgrade", "h2c")
            ]))
            .is_none()
        );
        assert!(
            upgrade(&map(&[
                ("connection", "keep-alive, Upgrade"),
                ("upgrade", "websocket")
            ]))
            .is_some()
        );
    }
}
