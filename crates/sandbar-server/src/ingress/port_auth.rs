//! Access control for ports of sessions.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Request, Response},
};
use sandbar_core::{Error, ErrorCode, Result, SessionId};
use sandbar_e2b::{CallOwner, TRAFFIC_TOKEN as E2B_TRAFFIC_TOKEN};
use sandbar_host::PortAccess;

use super::{
    cookie,
    target::{FoundBy, Target},
};
use crate::access::{Caller, TokenVerifier};

/// Header for a token of the host with scope for the session. It is not `authorization`, which
/// belongs to the application: this one can always be removed before a request is forwarded.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-sandbar-token");
/// Header for the traffic token of the session.
pub(super) const TRAFFIC_TOKEN: HeaderName = HeaderName::from_static("x-sandbar-traffic-token");

/// Outcome of the access check.
pub(super) enum Admission {
    /// Forward the request, and count it for this owner.
    Forward(PortCaller),
    /// The token was in the query of a link: answer with a cookie and a redirect.
    SetCookie(Response<Body>),
}

/// Sender of a request to a port.
pub(super) enum PortCaller {
    /// Holder of a token of the host.
    Host(Caller),
    /// Holder of the traffic token of the session.
    Session,
    /// Peer without a token.
    Visitor,
}

impl PortCaller {
    /// Returns the party whose calls are counted.
    pub(super) fn owner<'a>(&'a self, session: &'a SessionId) -> CallOwner<'a> {
        match self {
            Self::Host(caller) => caller.owner(),
            Self::Session => CallOwner::Session(session),
            Self::Visitor => CallOwner::Visitor(session),
        }
    }
}

/// Checks that a request may reach the port.
///
/// | the request has | and names the session by | result |
/// |---|---|---|
/// | traffic token in the query, `GET` | host name | cookie and redirect |
/// | host token or traffic token in a header | any | forwarded |
/// | traffic token in the cookie | host name | forwarded |
/// | no token; port public or no authentication | host name, or headers at own name | forwarded |
/// | anything else | | `Unauthenticated` |
pub(super) fn admit<B>(
    target: &Target,
    access: &PortAccess,
    verifier: &TokenVerifier,
    request: &Request<B>,
) -> Result<Admission> {
    let sent = |name: &HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
    let by_name = target.found_by == FoundBy::Name;
    if by_name && let Some(response) = cookie::exchange(request, |token| access.token.is(token)) {
        return Ok(Admission::SetCookie(response));
    }
    // DNS rebinding: a page on the web can point its own name at this machine and then send any
    // header, so headers under a foreign name need a token even for public ports.
    let is_public =
        (access.public || verifier.is_open()) && target.found_by != FoundBy::HeadersElsewhere;
    let host_caller =
        || sent(&TOKEN).and_then(|token| verifier.port_caller(&target.session, token));
    let has_traffic_token = || {
        [TRAFFIC_TOKEN, E2B_TRAFFIC_TOKEN]
            .iter()
            .filter_map(sent)
            .any(|token| access.token.is(token))
            || (by_name && cookie::cookies(request.headers()).any(|token| access.token.is(token)))
    };
    if let Some(caller) = host_caller() {
        return Ok(Admission::Forward(PortCaller::Host(caller)));
    }
    if has_traffic_token() {
        return Ok(Admission::Forward(PortCaller::Session));
    }
    if is_public {
        return Ok(Admission::Forward(PortCaller::Visitor));
    }
    Err(refusal(target, request))
}

/// Reports whether a request has a token of the host for the session.
pub(super) fn has_host_token<B>(
    target: &Target,
    verifier: &TokenVerifier,
    request: &Request<B>,
) -> bool {
    request.headers().get(&TOKEN).is_some_and(|token| {
        verifier
            .port_caller(&target.session, token.as_bytes())
            .is_some()
    })
}

/// Returns the error of a request without a valid token. It does not depend on whether the session
/// exists.
pub(super) fn refusal<B>(target: &Target, request: &Request<B>) -> Error {
    let problem = if has_token_header(request.headers()) {
        "token not accepted for"
    } else {
        "token missing for"
    };
    Error::new(ErrorCode::Unauthenticated, format!("{problem} the ports of session `{}`", target.session)).with_hint(
        format!(
            "send `{TRAFFIC_TOKEN}` with the session's traffic token or `{TOKEN}` with a host token that has scope \
             for the session, add `?{}=TRAFFIC_TOKEN` once in a browser, \
             or allow public ingress in the session's network policy",
            cookie::NAME
        ),
    )
}

/// Reports whether a request has a token header, valid or not.
pub(super) fn has_token_header(headers: &HeaderMap) -> bool {
    [TOKEN, TRAFFIC_TOKEN, E2B_TRAFFIC_TOKEN]
        .iter()
        .any(|name| headers.contains_key(name))
}
