//! Token lookup.

use std::sync::Arc;

use axum::http::{HeaderMap, Request, header};
use sandbar_core::{AccessToken, Error, ErrorCode, Need, Result, SessionId};
use sandbar_e2b::{ApiCaller, CallSlot as _, Keyring};
use sandbar_host::Host;

use super::{CallSlot, Caller, bearer, version};

/// Maps tokens to callers: the local token of the data directory, and the tokens that the host
/// issued. Only BLAKE3 hashes are stored, and their comparison takes constant time. Issued tokens
/// are looked up on every request, so that a revoked token is rejected at once, also on open
/// connections.
#[derive(Clone, Debug)]
pub(crate) struct TokenVerifier {
    /// `None` switches authentication off.
    local: Option<blake3::Hash>,
    host: Arc<Host>,
}

impl TokenVerifier {
    pub(crate) fn new(local: Option<&AccessToken>, host: Arc<Host>) -> Self {
        Self {
            local: local.map(|token| blake3::hash(token.reveal().as_bytes())),
            host,
        }
    }

    /// Reports whether authentication is off: every caller is an admin.
    pub(crate) fn is_open(&self) -> bool {
        self.local.is_none()
    }

    /// Returns the caller that a request's headers authenticate.
    pub(super) fn identify(&self, headers: &HeaderMap) -> Result<Caller> {
        if self.is_open() {
            return Ok(Caller::anonymous());
        }
        let Some(header) = headers.get(header::AUTHORIZATION) else {
            return Err(refusal("access token missing"));
        };
        let caller = bearer::token(header.as_bytes())
            .map(|token| self.caller(token))
            .transpose()?
            .flatten();
        caller.ok_or_else(|| refusal("access token not recognised by this host"))
    }

    /// Checks API version and token only, and takes the call slot. For endpoints that forward
    /// requests as RPCs, which then pass [`authenticate`](super::authenticate()) with the same
    /// token and slot.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<()> {
        version::check(request.headers())?;
        let caller = self.identify(request.headers())?;
        CallSlot::of(request)?.take(caller.owner())
    }

    /// Returns the caller with a token that may reach the private ports of a session.
    pub(crate) fn port_caller(&self, session: &SessionId, token: &[u8]) -> Option<Caller> {
        let caller = self.caller(token).ok().flatten()?;
        caller
            .grant()
            .may(Need::UseSession(session))
            .then_some(caller)
    }

    /// Reports whether an `authorization` header holds a token of this host, expired or not.
    pub(crate) fn is_host_token(&self, authorization: &[u8]) -> bool {
        bearer::token(authorization)
            .is_some_and(|token| self.is_local(token) || self.host.is_token(token))
    }

    fn caller(&self, token: &[u8]) -> Result<Option<Caller>> {
        if let Some(local) = self.local.as_ref().filter(|_| self.is_local(token)) {
            return Ok(Some(Caller::local(local)));
        }
        Ok(self.host.known_token(token)?.map(Caller::with_token))
    }

    fn is_local(&self, token: &[u8]) -> bool {
        self.local.is_some_and(|local| blake3::hash(token) == local)
    }
}

/// E2B API keys are encoded tokens of this host.
impl Keyring for TokenVerifier {
    fn is_open(&self) -> bool {
        self.is_open()
    }

    fn caller(&self, token: &[u8]) -> Result<Option<ApiCaller>> {
        Ok(self.caller(token)?.map(|caller| ApiCaller {
            name: caller.name().clone(),
            grant: caller.grant().clone(),
        }))
    }
}

fn refusal(message: &str) -> Error {
    Error::new(ErrorCode::Unauthenticated, message).with_hint(
        "send `authorization: Bearer TOKEN`; the CLI reads it from `SANDBAR_TOKEN` or the data directory, and an admin \
         creates tokens with `sandbar token new`",
    )
}
