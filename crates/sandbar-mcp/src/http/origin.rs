//! Check of the `origin` header against DNS rebinding.
//!
//! A web page can point its own name at our address, and then its requests are same-origin. Trusted
//! are origins that are loopback for every client, and the name of this host together with a token,
//! which such a page does not have.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header, uri::Authority};

/// Reports whether the origin of a request is trusted. Requests without `origin` do not come from a
/// web page.
pub(super) fn is_trusted(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else {
        return true;
    };
    if origins.next().is_some() {
        return false;
    }
    let uri = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.parse::<Uri>().ok());
    let Some(authority) = uri
        .as_ref()
        .filter(|uri| uri.scheme().is_some())
        .and_then(Uri::authority)
    else {
        return false;
    };
    is_this_machine(authority)
        || (headers.contains_key(header::AUTHORIZATION) && is_our_name(authority, headers))
}

fn is_this_machine(authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn is_our_name(authority: &Authority, headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    host.is_some_and(|host| authority.as_str().eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(fields: &[(&'static str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        is_trusted(&headers)
    }

    #[test]
    fn foreign_origin_is_rejected_even_when_it_resolves_here() {
        for origin in [
            "http://localhost:6274",
            "http://127.0.0.1:9100",
            "https://[::1]:1",
            "http://LOCALHOST",
        ] {
            assert!(trusted(&[("origin", origin)]), "{origin}");
        }
        for origin in [
            "http://evil.example",
            "http://evil.example:9100",
            "http://localhost.evil.example",
            "http://3000-box.localhost:9100",
            "http://127.0.0.1.evil.example",
            "http://10.0.0.1",
            "null",
            "",
            "localhost",
        ] {
            assert!(
                !trusted(&[("origin", origin), ("host", "evil.example:9100")]),
                "{origin}"
            );
        }
        assert!(trusted(&[]));
        assert!(!trusted(&[
            ("origin", "http://localhost"),
            ("origin", "http://evil.example")
        ]));
    }

    #[test]
    fn own_name_is_trusted_with_a_token_only() {
        let (origin, host) = (
            ("origin", "https://boxes.example"),
            ("host", "boxes.example"),
        );
        assert!(!trusted(&[origin, host]));
        assert!(trusted(&[origin, host, ("authorization", "Bearer x")]));
        assert!(!trusted(&[
            origin,
            ("host", "other.example"),
            ("authorization", "Bearer x")
        ]));
    }
}
