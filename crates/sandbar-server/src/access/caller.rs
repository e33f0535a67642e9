//! Authenticated callers.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::http::Extensions;
use connectrpc::{ConnectError, RequestContext};
use jiff::Timestamp;
use sandbar_core::{Actor, Error, ErrorCode, Grant, Need, Result};
use sandbar_e2b::CallOwner;
use sandbar_host::KnownToken;
use tokio::time::sleep;

use crate::rpc::errors::failed;

/// Authenticated sender of a request, with its scopes.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Identifies the token in logs without revealing it.
    name: Arc<str>,
    grant: Grant,
    /// `None` for callers whose token neither expires nor can be revoked: the local token, and
    /// every caller of a server without authentication.
    token: Option<KnownToken>,
}

impl Caller {
    /// Returns the caller of every request when authentication is off.
    pub(super) fn anonymous() -> Self {
        Self {
            name: "anonymous".into(),
            grant: Grant::admin(),
            token: None,
        }
    }

    /// Returns the caller with the token of the data directory.
    pub(super) fn local(hash: &blake3::Hash) -> Self {
        Self {
            name: format!("token:{}", &hash.to_hex()[..8]).into(),
            grant: Grant::admin(),
            token: None,
        }
    }

    /// Returns the caller with a token from `CreateToken`.
    pub(super) fn with_token(token: KnownToken) -> Self {
        Self {
            name: format!("token:{}", token.name).into(),
            grant: token.grant.clone(),
            token: Some(token),
        }
    }

    /// Returns the caller of the request that a handler works on.
    pub(crate) fn of(context: &RequestContext) -> Result<&Self, ConnectError> {
        let caller = context.extensions().get::<Self>();
        caller.ok_or_else(|| {
            failed(Error::internal(
                "request reached its handler without authentication",
            ))
        })
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns the party whose calls are counted.
    pub(crate) fn owner(&self) -> CallOwner<'_> {
        CallOwner::Token {
            name: &self.name,
            grant: &self.grant,
        }
    }

    /// Returns the name of the caller in the audit log: token name and peer address.
    pub(super) fn actor(&self, extensions: &Extensions) -> Result<Actor> {
        match extensions.get::<Peer>() {
            Some(Peer(address)) => Actor::new(&format!("{}@{address}", self.name)),
            None => Actor::new(&self.name),
        }
    }

    /// Returns `PermissionDenied` unless the scopes cover `need`. The error does not depend on
    /// whether the session exists, so it cannot be used to probe for session ids.
    pub(crate) fn require(&self, need: Need<'_>) -> Result<()> {
        if self.grant.may(need) {
            return Ok(());
        }
        let scopes: Vec<String> = self
            .grant
            .scopes()
            .iter()
            .map(|scope| format!("`{scope}`"))
            .collect();
        Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("access token has {}, but this call needs {need}", scopes.join(", ")),
        )
        .with_hint(format!("use a token with {need}; an admin creates one with `sandbar token new NAME --scope SCOPE`")))
    }

    /// Returns a future that resolves when the token expires or is revoked, with the error for the
    /// call. `None` for a caller without an expiring or revocable token.
    pub(super) fn token_end(&self) -> Option<impl Future<Output = Error> + Send + use<>> {
        let token = self.token.clone()?;
        Some(async move {
            let expired = async {
                match token.expires {
                    Some(expires) => sleep(until(expires)).await,
                    None => std::future::pending().await,
                }
            };
            let reason = tokio::select! {
                () = token.revoked.cancelled() => "was revoked",
                () = expired => "has expired",
            };
            Error::new(
                ErrorCode::Unauthenticated,
                format!("access token `{}` {reason} during the call", token.name),
            )
            .with_hint("use another token")
        })
    }
}

fn until(moment: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(Timestamp::now())).unwrap_or_default()
}

/// IP address of the peer of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);
