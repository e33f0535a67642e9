//! Who may reach a port of a session.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Request, Response},
};
use sandbar_core::{Error, ErrorCode, Result};
use sandbar_e2b::TRAFFIC_TOKEN as E2B_TRAFFIC_TOKEN;
use sandbar_host::PortAccess;

use super::{
    target::{FoundBy, Target},
    visit,
};
use crate::access::Gatekeeper;

/// A token of the host that may do something with the session. It stands in no header that applications use, so that it
/// can be taken out on the way.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-sandbar-token");
/// The token of the session.
pub(super) const TRAFFIC_TOKEN: HeaderName = HeaderName::from_static("x-sandbar-traffic-token");

/// What becomes of a request.
pub(super) enum Entry {
    /// It is passed on.
    Open,
    /// A browser showed the token in a link: it is given a cookie, and asked to come again.
    Visit(Response<Body>),
}

/// Lets a request in, or says what is missing.
pub(super) fn admit<B>(
    target: &Target,
    access: &PortAccess,
    gatekeeper: &Gatekeeper,
    request: &Request<B>,
) -> Result<Entry> {
    let shown = |name: &HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
    let by_name = target.found_by == FoundBy::Name;
    if by_name && let Some(answer) = visit::begin(request, |token| access.token.is(token)) {
        return Ok(Entry::Visit(answer));
    }
    // Without a token in the request nobody has proved anything, so it must not be a page that found this machine under
    // a name of its own.
    let anybody = (access.public || gatekeeper.is_open()) && target.found_by != FoundBy::HeadersElsewhere;
    let has_token = || {
        shown(&TOKEN).is_some_and(|token| gatekeeper.opens_ports_of(&target.session, token))
            || [TRAFFIC_TOKEN, E2B_TRAFFIC_TOKEN].iter().filter_map(shown).any(|token| access.token.is(token))
            || (by_name && visit::cookies(request.headers()).any(|token| access.token.is(token)))
    };
    if anybody || has_token() {
        return Ok(Entry::Open);
    }
    let what = if shows_token(request.headers()) { "the token does not open" } else { "a token is needed for" };
    Err(Error::new(ErrorCode::Unauthenticated, format!("{what} the ports of session `{}`", target.session)).with_hint(
        format!(
            "send `{TRAFFIC_TOKEN}` with the session's traffic token or `{TOKEN}` with a token of the host that may \
             use the session, in a browser \
             add `?{}=TRAFFIC_TOKEN` once, or allow public ingress in the session's network policy",
            visit::NAME
        ),
    ))
}

/// Whether there is a token at all.
pub(super) fn shows_token(headers: &HeaderMap) -> bool {
    [TOKEN, TRAFFIC_TOKEN, E2B_TRAFFIC_TOKEN].iter().any(|name| headers.contains_key(name))
}
