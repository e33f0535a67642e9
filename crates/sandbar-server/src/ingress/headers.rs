//! Which headers are passed on, and which are for this hop or this host alone.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{
    entry::{TOKEN, TRAFFIC_TOKEN},
    target::{PORT, SESSION},
    visit,
};
use crate::{access::Peer, entrance::Transport};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What E2B's clients say to whoever leads requests to sandboxes.
const OF_E2B: [HeaderName; 3] = [sandbar_e2b::SANDBOX, sandbar_e2b::PORT, sandbar_e2b::TRAFFIC_TOKEN];

/// About one connection, not about the message.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The protocol a message wants to go on with, or goes on with.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = named_by_connection(headers).any(|name| name == header::UPGRADE);
    // HTTP/2 would carry more requests, whose headers nobody looks at.
    headers.get(header::UPGRADE).filter(|value| asks && !value.as_bytes().eq_ignore_ascii_case(b"h2c")).cloned()
}

/// Takes out what is about the connection it came by.
pub(super) fn take_out_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = named_by_connection(headers).collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Says that the connection goes on with another protocol.
pub(super) fn put_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// Makes the headers of a request what the session is to see of them. `opens_host` says whether an `authorization` is one
/// of ours.
pub(super) fn prepare(headers: &mut HeaderMap, opens_host: impl Fn(&[u8]) -> bool, peer: Peer, transport: Transport) {
    let takes_trailers = headers.get_all(header::TE).iter().any(|value| contains_word(value, "trailers"));
    take_out_hop_by_hop(headers);
    // We ask for the body ourselves; and it is for this hop that a client said what it accepts.
    for name in [SESSION, PORT, TOKEN, TRAFFIC_TOKEN, header::EXPECT, header::TE].iter().chain(&OF_E2B) {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    // It belongs to the application, unless somebody put what opens the host there.
    if headers.get(header::AUTHORIZATION).is_some_and(|value| opens_host(value.as_bytes())) {
        headers.remove(header::AUTHORIZATION);
    }
    visit::take_out_cookies(headers);
    forwarded(headers, peer, transport);
}

/// Says where the request came from. A proxy before us knows better what was asked for.
fn forwarded(headers: &mut HeaderMap, Peer(address): Peer, transport: Transport) {
    let mut chain: Vec<String> =
        headers.get_all(FORWARDED_FOR).iter().filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect();
    chain.push(address.to_string());
    if let Ok(chain) = HeaderValue::from_str(&chain.join(", ")) {
        headers.insert(FORWARDED_FOR, chain);
    }
    if let Some(host) = headers.get(header::HOST).cloned() {
        headers.entry(FORWARDED_HOST).or_insert(host);
    }
    let scheme = if transport == Transport::Tls { "https" } else { "http" };
    headers.entry(FORWARDED_PROTO).or_insert(HeaderValue::from_static(scheme));
}

fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let fields = headers.get_all(header::CONNECTION).into_iter();
    let words = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    words.filter_map(|word| HeaderName::from_bytes(word.trim_ascii()).ok())
}

fn contains_word(value: &HeaderValue, wanted: &str) -> bool {
    let words = value.as_bytes().split(|byte| matches!(byte, b',' | b';'));
    words.map(<[u8]>::trim_ascii).any(|word| word.eq_ignore_ascii_case(wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn what_is_of_the_hop_or_opens_the_host_is_not_passed_on() {
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
        prepare(&mut headers, |value| value == bearer.as_bytes(), peer, Transport::Plain);
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
    fn what_belongs_to_the_application_is_passed_on() {
        let mut headers = map(&[("authorization", "Bearer of-the-application"), ("x-forwarded-proto", "https")]);
        prepare(&mut headers, |value| value == b"Bearer of-the-host", Peer("::1".parse().unwrap()), Transport::Plain);
        assert_eq!(headers["authorization"], "Bearer of-the-application");
        assert_eq!(headers["x-forwarded-proto"], "https");
    }

    #[test]
    fn applications_are_told_that_they_are_reached_by_tls() {
        let mut headers = HeaderMap::new();
        prepare(&mut headers, |_| false, Peer("::1".parse().unwrap()), Transport::Tls);
        assert_eq!(headers["x-forwarded-proto"], "https");
    }

    #[test]
    fn an_upgrade_must_be_asked_for_by_the_connection_and_not_lead_to_http_2() {
        assert!(upgrade(&map(&[("upgrade", "websocket")])).is_none());
        assert!(upgrade(&map(&[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")])).is_none());
        assert!(upgrade(&map(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")])).is_some());
    }
}
