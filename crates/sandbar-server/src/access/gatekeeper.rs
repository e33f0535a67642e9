//! Whose token it is.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use sandbar_core::{AccessToken, Error, ErrorCode, Need, Result, SessionId};
use sandbar_e2b::{Holder, Keyring};
use sandbar_host::Host;

use super::{Caller, bearer, version};

/// What callers are checked against: the token of the data directory, and those the host was asked to make. Only hashes
/// are kept, and comparing two hashes takes the same time wherever they differ. The host's are looked up in its memory
/// with every call, so that what it takes back opens nothing from then on, on connections that are open as well.
#[derive(Clone, Debug)]
pub(crate) struct Gatekeeper {
    /// `None`: nobody is asked.
    local: Option<blake3::Hash>,
    host: Arc<Host>,
}

impl Gatekeeper {
    pub(crate) fn new(local: Option<&AccessToken>, host: Arc<Host>) -> Self {
        Self { local: local.map(|token| blake3::hash(token.reveal().as_bytes())), host }
    }

    /// Whether everybody may do everything.
    pub(crate) fn is_open(&self) -> bool {
        self.local.is_none()
    }

    /// Who calls with these headers.
    pub(super) fn identify(&self, headers: &HeaderMap) -> Result<Caller> {
        if self.is_open() {
            return Ok(Caller::anonymous());
        }
        let Some(header) = headers.get(header::AUTHORIZATION) else {
            return Err(refusal("the call carries no access token"));
        };
        let caller = bearer::token(header.as_bytes()).map(|token| self.holder(token)).transpose()?.flatten();
        caller.ok_or_else(|| refusal("the access token is none of this host"))
    }

    /// Whether somebody known calls. For what makes calls of its own on their behalf, which pass the guard.
    pub(crate) fn recognize(&self, headers: &HeaderMap) -> Result<()> {
        version::check(headers)?;
        self.identify(headers).map(drop)
    }

    /// Whether this opens the private ports of a session.
    pub(crate) fn opens_ports_of(&self, session: &SessionId, token: &[u8]) -> bool {
        let holder = self.holder(token).ok().flatten();
        holder.is_some_and(|caller| caller.grant().may(Need::UseSession(session)))
    }

    /// Whether an `authorization` header holds a token of this host, also one whose time is up.
    pub(crate) fn is_for_this_host(&self, authorization: &[u8]) -> bool {
        bearer::token(authorization).is_some_and(|token| self.is_local(token) || self.host.is_token(token))
    }

    fn holder(&self, token: &[u8]) -> Result<Option<Caller>> {
        if let Some(local) = self.local.as_ref().filter(|_| self.is_local(token)) {
            return Ok(Some(Caller::local(local)));
        }
        Ok(self.host.known_token(token)?.map(Caller::holder))
    }

    fn is_local(&self, token: &[u8]) -> bool {
        self.local.is_some_and(|local| blake3::hash(token) == local)
    }
}

/// Keys of E2B's SDKs are tokens of this host in another form.
impl Keyring for Gatekeeper {
    fn is_open(&self) -> bool {
        self.is_open()
    }

    fn holder(&self, token: &[u8]) -> Result<Option<Holder>> {
        let caller = self.holder(token)?;
        Ok(caller.map(|caller| Holder { name: caller.name().clone(), grant: caller.grant().clone() }))
    }
}

fn refusal(message: &str) -> Error {
    Error::new(ErrorCode::Unauthenticated, message).with_hint(
        "send `authorization: Bearer TOKEN`; the CLI takes it from `SANDBAR_TOKEN` or the data directory, and an admin \
         makes more with `sandbar token new`",
    )
}
