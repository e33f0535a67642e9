//! Admission of a request to one sandbox.

use axum::response::{IntoResponse as _, Response};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use connectrpc::{ConnectError, ErrorCode as RpcCode, RequestContext};
use http::{HeaderMap, Method, StatusCode, header};
use sandbar_core::{Error, ErrorCode, Grant, Need, Result, SessionId, TokenScope};
use sandbar_host::PortAccess;

use super::{
    Auth, CallOwner, CallSlot, FilesQuery,
    keys::ApiCaller,
    signed_url,
    token::{access_token, is_equal},
};
use crate::{
    protocol::{ACCESS_TOKEN, TRAFFIC_TOKEN},
    rest::{ApiError, not_served, sandbox_not_found},
    sandboxes::SandboxNote,
};

/// An admitted request to a sandbox. Every request to envd carries it in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct SessionCaller {
    pub(crate) session: SessionId,
    pub(crate) note: SandboxNote,
    /// User in the sandbox the request acts as.
    pub(crate) user: String,
    pub(crate) caller: ApiCaller,
}

impl SessionCaller {
    /// Returns the caller of a Connect call.
    pub(crate) fn of(context: &RequestContext) -> Result<&Self, ConnectError> {
        context.extensions().get().ok_or_else(|| {
            ConnectError::new(
                RpcCode::Internal,
                "internal error: call reached its handler without authentication",
            )
        })
    }
}

/// Weakest credential a route accepts. An API key with access to the sandbox is always accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential<'a> {
    /// Access token of the sandbox.
    AccessToken,
    /// Access token, or a URL signed with it: links to files are opened by clients that have no
    /// token.
    SignedUrl {
        query: &'a FilesQuery,
        method: &'a Method,
    },
    /// Whatever a port of the sandbox accepts, because SDKs send nothing else on this route.
    PortAccess,
}

/// Name by which a request addressed this host; a defence against DNS rebinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// A name or an address of this host.
    OwnName,
    /// Any other name. An attacker could make the name of a malicious web page resolve to this
    /// machine, so the request needs a token even where no token is otherwise required.
    ForeignName,
}

impl Auth {
    /// Admits a request to a sandbox, takes its call slot and wakes the sandbox if necessary. The
    /// error is the response.
    pub(crate) async fn admit(
        &self,
        slot: &dyn CallSlot,
        sandbox: &str,
        (named_by, credential): (NamedBy, Credential<'_>),
        headers: &HeaderMap,
    ) -> Result<SessionCaller, Response> {
        let Ok(session) = SessionId::new(sandbox) else {
            return Err(sandbox_not_found(sandbox));
        };
        // The sandbox may be destroyed between any two of these calls.
        let access = self
            .host
            .port_access(&session)
            .await
            .map_err(|error| not_served(sandbox, error))?;
        let stored = self
            .sandboxes
            .stored_note(&session)
            .await
            .map_err(|error| not_served(sandbox, error))?;
        let is_of_e2b = stored.is_some();
        let note = stored.unwrap_or_default();
        let signature = credential.check_signature(headers, &access_token(access.token.reveal()));
        let evidence = Evidence {
            accepts_port_access: credential == Credential::PortAccess,
            named_by,
            ports_are_public: access.public,
            requires_token: note.secure,
            has_access_token: has_access_token(headers, &access),
            has_traffic_token: has_traffic_token(headers, &access),
            has_signature: signature == Some(Ok(())),
        };
        let caller = if evidence.admits() {
            Grant::new([TokenScope::Session(session.clone())]).map(|grant| ApiCaller {
                name: "e2b".into(),
                grant,
            })
        } else {
            self.admit_by_key(&session, named_by, headers)
        };
        let caller = caller.map_err(|_| match signature {
            // Ids that E2B clients get are random. Others could be guessed, so a session that no
            // E2B client has created answers like one that does not exist.
            _ if !is_of_e2b => sandbox_not_found(sandbox),
            Some(Err(why)) => ApiError::new(StatusCode::UNAUTHORIZED, why).into_response(),
            _ => ApiError::from(no_access(&session)).into_response(),
        })?;
        let owner = if evidence.has_token() {
            CallOwner::Session(&session)
        } else if evidence.admits() {
            CallOwner::Visitor(&session)
        } else {
            caller.owner()
        };
        slot.take(owner)
            .map_err(|error| ApiError::from(error).into_response())?;
        self.sandboxes
            .wake_for_request(&session, &note, access.state)
            .await
            .map_err(|error| not_served(sandbox, error))?;
        let user = basic_auth_user(headers).unwrap_or_else(|| note.user.clone());
        Ok(SessionCaller {
            session,
            note,
            user,
            caller,
        })
    }

    fn admit_by_key(
        &self,
        session: &SessionId,
        named_by: NamedBy,
        headers: &HeaderMap,
    ) -> Result<ApiCaller> {
        let caller = self.identify(headers)?;
        caller.require(Need::UseSession(session))?;
        // On a host without tokens `identify` accepts every request, so it proves nothing.
        if self.is_disabled() && named_by == NamedBy::ForeignName {
            return Err(no_access(session));
        }
        Ok(caller)
    }
}

/// Facts that decide whether a request is admitted without an API key.
#[expect(
    clippy::struct_excessive_bools,
    reason = "columns of a decision table; each is independent"
)]
#[derive(Clone, Copy, Debug)]
struct Evidence {
    /// The route accepts [`Credential::PortAccess`].
    accepts_port_access: bool,
    named_by: NamedBy,
    ports_are_public: bool,
    /// The sandbox was created with `secure`.
    requires_token: bool,
    has_access_token: bool,
    has_traffic_token: bool,
    /// The URL has a valid signature, and the route accepts one.
    has_signature: bool,
}

impl Evidence {
    /// Returns whether the request carries a token of the sandbox that admits it.
    fn has_token(self) -> bool {
        self.has_access_token
            || self.has_signature
            || (self.accepts_port_access && self.has_traffic_token)
    }

    /// Returns whether one of the five ways in applies.
    fn admits(self) -> bool {
        let is_own_name = self.named_by == NamedBy::OwnName;
        self.has_token()
            || (!self.requires_token && is_own_name)
            || (self.accepts_port_access && self.ports_are_public && is_own_name)
    }
}

fn has_access_token(headers: &HeaderMap, access: &PortAccess) -> bool {
    headers.get(&ACCESS_TOKEN).is_some_and(|presented| {
        is_equal(presented.as_bytes(), &access_token(access.token.reveal()))
    })
}

fn has_traffic_token(headers: &HeaderMap, access: &PortAccess) -> bool {
    headers
        .get(&TRAFFIC_TOKEN)
        .is_some_and(|presented| access.token.is(presented.as_bytes()))
}

impl Credential<'_> {
    /// Checks the signature of the URL; `None` if the route accepts none. The error is the message
    /// of the response, in E2B's words.
    fn check_signature(
        &self,
        headers: &HeaderMap,
        token: &str,
    ) -> Option<Result<(), &'static str>> {
        let Self::SignedUrl { query, method } = self else {
            return None;
        };
        if headers.contains_key(&ACCESS_TOKEN) {
            return Some(Err("access token present in header but does not match"));
        }
        Some(signed_url::check(query, method, token))
    }
}

fn no_access(session: &SessionId) -> Error {
    Error::new(
        ErrorCode::Unauthenticated,
        format!("access token is missing or not valid for sandbox `{session}`"),
    )
    .with_hint(
        "send `X-Access-Token` with the `envdAccessToken` of the answer to create or connect",
    )
}

/// Returns the user named by `Authorization: Basic`. The password is ignored: it is no credential.
fn basic_auth_user(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let user = decoded
        .split_once(':')
        .map_or(decoded.as_str(), |(user, _)| user);
    (!user.is_empty()).then(|| user.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that presents nothing, to a secured sandbox with private ports.
    const NOTHING: Evidence = Evidence {
        accepts_port_access: false,
        named_by: NamedBy::OwnName,
        ports_are_public: false,
        requires_token: true,
        has_access_token: false,
        has_traffic_token: false,
        has_signature: false,
    };

    fn foreign(evidence: Evidence) -> Evidence {
        Evidence {
            named_by: NamedBy::ForeignName,
            ..evidence
        }
    }

    #[test]
    fn request_without_credential_needs_an_api_key() {
        assert!(!NOTHING.admits() && !foreign(NOTHING).admits());
    }

    #[test]
    fn access_token_or_signature_admits_under_any_name() {
        let token = Evidence {
            has_access_token: true,
            ..NOTHING
        };
        let signature = Evidence {
            has_signature: true,
            ..NOTHING
        };
        for evidence in [token, signature] {
            assert!(evidence.admits() && foreign(evidence).admits());
        }
    }

    #[test]
    fn unsecured_sandbox_admits_under_own_name_only() {
        let unsecured = Evidence {
            requires_token: false,
            ..NOTHING
        };
        assert!(unsecured.admits() && !foreign(unsecured).admits());
    }

    #[test]
    fn traffic_token_admits_only_where_port_access_is_accepted() {
        let token = Evidence {
            has_traffic_token: true,
            ..NOTHING
        };
        assert!(!token.admits());
        let accepted = Evidence {
            accepts_port_access: true,
            ..token
        };
        assert!(accepted.admits() && foreign(accepted).admits());
    }

    #[test]
    fn public_port_admits_under_own_name_only() {
        let public = Evidence {
            ports_are_public: true,
            ..NOTHING
        };
        assert!(!public.admits());
        let accepted = Evidence {
            accepts_port_access: true,
            ..public
        };
        assert!(accepted.admits() && !foreign(accepted).admits());
    }

    #[test]
    fn user_is_the_name_in_basic_authorization() {
        let user = |value: &str| {
            basic_auth_user(&HeaderMap::from_iter([(
                header::AUTHORIZATION,
                value.parse().unwrap(),
            )]))
        };
        assert_eq!(user("Basic cm9vdDo=").as_deref(), Some("root"));
        assert_eq!(user("basic cm9vdDpwYXNz").as_deref(), Some("root"));
        for invalid in ["Bearer x", "Basic", "Basic !!", "Basic Og=="] {
            assert_eq!(user(invalid), None, "{invalid}");
        }
    }
}
