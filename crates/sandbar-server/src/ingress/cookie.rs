//! Traffic token of browsers, which cannot send our headers: a link carries the token once in its
//! query, and is exchanged for a cookie.
//!
//! The cookie is bound to the host name of one port (no `Domain`), hidden from scripts (`HttpOnly`)
//! and not sent with cross-site subrequests (`SameSite=Lax`).

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header},
};

use crate::http::Transport;

/// Name of the query parameter and of the cookie.
pub(super) const NAME: &str = "sandbar_traffic_token";

/// Answers a link with a valid token: sets the cookie, and redirects to the same page without the
/// token. `None` for any other request.
pub(super) fn exchange<B>(
    request: &Request<B>,
    is_valid: impl Fn(&[u8]) -> bool,
) -> Option<Response<Body>> {
    if request.method() != Method::GET {
        return None;
    }
    let (mut token, mut rest) = (None, Vec::new());
    for pair in request.uri().query()?.split('&') {
        match pair.split_once('=') {
            Some((NAME, value)) => token = Some(value),
            _ => rest.push(pair),
        }
    }
    let token = token.filter(|token| is_valid(token.as_bytes()))?;
    // Open redirect: `//name` and `/\name` in `location` would lead to another host.
    let path = request.uri().path().trim_start_matches(['/', '\\']);
    let query = if rest.is_empty() {
        String::new()
    } else {
        format!("?{}", rest.join("&"))
    };
    let secure = if request.extensions().get() == Some(&Transport::Tls) {
        "; Secure"
    } else {
        ""
    };
    Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, format!("/{path}{query}"))
        .header(
            header::SET_COOKIE,
            format!("{NAME}={token}; Path=/; HttpOnly; SameSite=Lax{secure}"),
        )
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::REFERRER_POLICY, "no-referrer")
        .body(Body::empty())
        .ok()
}

/// Returns the tokens in the cookies of a request.
pub(super) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    pairs(headers).filter_map(|pair| pair.strip_prefix(NAME.as_bytes())?.strip_prefix(b"="))
}

/// Removes our cookie, and joins the others into one header.
pub(super) fn remove_cookie(headers: &mut HeaderMap) {
    let is_ours = |pair: &&[u8]| {
        pair.strip_prefix(NAME.as_bytes())
            .is_some_and(|rest| rest.starts_with(b"="))
    };
    let others: Vec<&[u8]> = pairs(headers).filter(|pair| !is_ours(pair)).collect();
    let kept = HeaderValue::from_bytes(&others.join(&b"; "[..]))
        .ok()
        .filter(|kept| !kept.is_empty());
    headers.remove(header::COOKIE);
    if let Some(kept) = kept {
        headers.insert(header::COOKIE, kept);
    }
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let fields = headers.get_all(header::COOKIE).into_iter();
    fields
        .flat_map(|field| field.as_bytes().split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchanged(uri: &str) -> Option<Response<Body>> {
        exchange(&Request::get(uri).body(()).unwrap(), |token| {
            token == b"right"
        })
    }

    #[test]
    fn link_with_the_token_is_exchanged_for_a_cookie() {
        let answer = exchanged("/app/?a=1&sandbar_traffic_token=right&b=%20").unwrap();
        assert_eq!(answer.headers()[header::LOCATION], "/app/?a=1&b=%20");
        let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
        assert!(
            cookie.starts_with("sandbar_traffic_token=right; ") && cookie.contains("HttpOnly"),
            "{cookie}"
        );
        assert!(exchanged("/?sandbar_traffic_token=wrong").is_none());
        assert!(exchanged("/").is_none());
    }

    #[test]
    fn cookie_set_over_tls_is_secure() {
        let mut request = Request::get("/?sandbar_traffic_token=right")
            .body(())
            .unwrap();
        for (transport, is_secure) in [(Transport::Plain, false), (Transport::Tls, true)] {
            request.extensions_mut().insert(transport);
            let answer = exchange(&request, |token| token == b"right").unwrap();
            assert_eq!(
                answer.headers()[header::SET_COOKIE]
                    .to_str()
                    .unwrap()
                    .ends_with("; Secure"),
                is_secure
            );
        }
    }

    #[test]
    fn redirect_never_leads_to_another_host() {
        for path in ["//evil.test/", "/\\evil.test/", "///evil.test/"] {
            let answer = exchanged(&format!("{path}?sandbar_traffic_token=right"));
            // Some of these are no valid path and are rejected earlier.
            let location = answer.map(|answer| answer.headers()[header::LOCATION].clone());
            assert!(
                location.is_none_or(|location| location == "/evil.test/"),
                "{path}"
            );
        }
    }

    #[test]
    fn our_cookie_is_removed_and_others_are_kept() {
        let mut headers = HeaderMap::new();
        headers.append(
            header::COOKIE,
            HeaderValue::from_static("a=1; sandbar_traffic_token=x;b=2"),
        );
        headers.append(
            header::COOKIE,
            HeaderValue::from_static("sandbar_traffic_token=y; sandbar_traffic_tokens=3"),
        );
        assert_eq!(cookies(&headers).collect::<Vec<_>>(), [b"x", b"y"]);
        remove_cookie(&mut headers);
        assert_eq!(
            headers[header::COOKIE],
            "a=1; b=2; sandbar_traffic_tokens=3"
        );
        headers.insert(
            header::COOKIE,
            HeaderValue::from_static("sandbar_traffic_token=y"),
        );
        remove_cookie(&mut headers);
        assert!(!headers.contains_key(header::COOKIE));
    }
}
