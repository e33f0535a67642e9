//! Who comes to a sandbox, and as which user.

use axum::response::{IntoResponse as _, Response};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use connectrpc::{ConnectError, ErrorCode as RpcCode, RequestContext};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use sandbar_core::{Error, ErrorCode, Grant, Need, Result, SessionId, TokenScope};

use crate::{
    answer::{ControlError, not_served, sandbox_not_found},
    envd::files::{self, FilesQuery},
    keys::{Holder, envd_token, identify, is_same},
    place::NamedBy,
    ports,
    sandbox::SandboxNote,
    surface::Surface,
};

/// Carries the access token of a sandbox.
pub(crate) const ACCESS_TOKEN: HeaderName = HeaderName::from_static("x-access-token");
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Somebody who was let into a sandbox. Every request of envd carries it among its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) session: SessionId,
    pub(crate) note: SandboxNote,
    /// The user the request is for.
    pub(crate) user: String,
    pub(crate) holder: Holder,
}

impl Visitor {
    /// Whoever makes the call a handler works on.
    pub(crate) fn of(context: &RequestContext) -> Result<&Self, ConnectError> {
        context.extensions().get().ok_or_else(|| ConnectError::new(RpcCode::Internal, "a call came past the door"))
    }
}

/// What a request has to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door<'a> {
    /// The access token of the sandbox, or an API key.
    Guarded,
    /// The same, or a signature: links to files go to those who have nothing else.
    Signed { query: &'a FilesQuery, method: &'a Method },
    /// What a port of the sandbox takes is enough: SDKs send nothing else here.
    LikePorts,
}

/// Lets a request into a sandbox, or gives the answer it gets instead.
pub(crate) async fn admit(
    surface: &Surface,
    sandbox: &str,
    (named_by, door): (NamedBy, Door<'_>),
    headers: &HeaderMap,
) -> Result<Visitor, Response> {
    let Ok(session) = SessionId::new(sandbox) else { return Err(sandbox_not_found(sandbox)) };
    // The sandbox may be destroyed between any two of these calls.
    let access = surface.host.port_access(&session).await.map_err(|error| not_served(sandbox, error))?;
    let note = surface.note(&session).await.map_err(|error| not_served(sandbox, error))?;
    let token = envd_token(access.token.reveal());
    let has_token = headers.get(&ACCESS_TOKEN).is_some_and(|shown| is_same(shown.as_bytes(), &token));
    let has_traffic_token =
        || headers.get(&ports::TRAFFIC_TOKEN).is_some_and(|shown| access.token.is(shown.as_bytes()));
    let is_ours = named_by == NamedBy::OwnName;
    let is_like_a_port = door == Door::LikePorts && ((access.public && is_ours) || has_traffic_token());
    let is_open = is_ours && !note.secure;
    let signature = door.check(headers, &token);
    let holder = if has_token || is_like_a_port || is_open || signature == Some(Ok(())) {
        let grant = Grant::new([TokenScope::Session(session.clone())]);
        grant.map(|grant| Holder { name: "e2b".into(), grant })
    } else {
        let key = headers.get(&API_KEY).map(HeaderValue::as_bytes);
        identify(&*surface.keyring, key).and_then(|holder| {
            holder.require(Need::UseSession(&session))?;
            // Nobody has shown anything where nobody is asked.
            if surface.keyring.is_open() && named_by == NamedBy::AnyName {
                Err(no_access(&session))
            } else {
                Ok(holder)
            }
        })
    };
    let holder = holder.map_err(|_| match signature {
        Some(Err(why)) => ControlError::new(StatusCode::UNAUTHORIZED, why).into_response(),
        _ => ControlError::from(no_access(&session)).into_response(),
    })?;
    let woken = surface.wake_for_request(&session, &note, access.state).await;
    woken.map_err(|error| not_served(sandbox, error))?;
    let user = user_in(headers).unwrap_or_else(|| note.user.clone());
    Ok(Visitor { session, note, user, holder })
}

impl Door<'_> {
    /// Whether a signature opens it, where there may be one; the error is what is said instead.
    fn check(&self, headers: &HeaderMap, token: &str) -> Option<Result<(), &'static str>> {
        let Self::Signed { query, method } = self else { return None };
        if headers.contains_key(&ACCESS_TOKEN) {
            return Some(Err("access token present in header but does not match"));
        }
        Some(files::check(query, method, token))
    }
}

fn no_access(session: &SessionId) -> Error {
    Error::new(ErrorCode::Unauthenticated, format!("the access token does not open sandbox `{session}`"))
        .with_hint("send `X-Access-Token` with the `envdAccessToken` of the answer to create or connect")
}

/// The user named by `Authorization: Basic`; the password is not looked at.
fn user_in(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let user = decoded.split_once(':').map_or(decoded.as_str(), |(user, _)| user);
    (!user.is_empty()).then(|| user.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_the_name_of_basic_authorization() {
        let user = |value: &str| user_in(&HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]));
        assert_eq!(user("Basic cm9vdDo=").as_deref(), Some("root"));
        assert_eq!(user("basic cm9vdDpwYXNz").as_deref(), Some("root"));
        for nobody in ["Bearer x", "Basic", "Basic !!", "Basic Og=="] {
            assert_eq!(user(nobody), None, "{nobody}");
        }
    }
}
