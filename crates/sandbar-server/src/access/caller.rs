//! Who calls.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::http::Extensions;
use connectrpc::{ConnectError, RequestContext};
use jiff::Timestamp;
use sandbar_core::{Actor, Error, ErrorCode, Grant, Need, Result};
use sandbar_host::KnownToken;
use tokio::time::sleep;

use crate::failure::failed;

/// Whoever makes a call, and what they may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Tells tokens apart and reveals nothing of them.
    name: Arc<str>,
    grant: Grant,
    /// Absent for whoever may always do everything.
    token: Option<KnownToken>,
}

impl Caller {
    /// Somebody, where nobody is asked for a token.
    pub(super) fn anonymous() -> Self {
        Self { name: "anonymous".into(), grant: Grant::admin(), token: None }
    }

    /// Whoever has the token of the data directory.
    pub(super) fn local(hash: &blake3::Hash) -> Self {
        Self { name: format!("token:{}", &hash.to_hex()[..8]).into(), grant: Grant::admin(), token: None }
    }

    /// Whoever has a token that was made for them.
    pub(super) fn holder(token: KnownToken) -> Self {
        Self { name: format!("token:{}", token.name).into(), grant: token.grant.clone(), token: Some(token) }
    }

    /// Who makes the call a handler works on.
    pub(crate) fn of(context: &RequestContext) -> Result<&Self, ConnectError> {
        let caller = context.extensions().get::<Self>();
        caller.ok_or_else(|| failed(Error::internal("a call came past the guard")))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// What the audit log calls them.
    pub(super) fn actor(&self, extensions: &Extensions) -> Result<Actor> {
        match extensions.get::<Peer>() {
            Some(Peer(address)) => Actor::new(&format!("{}@{address}", self.name)),
            None => Actor::new(&self.name),
        }
    }

    /// Refuses what the token is too narrow for. The answer is the same whether there is such a session or not.
    pub(crate) fn require(&self, need: Need<'_>) -> Result<()> {
        if self.grant.may(need) {
            return Ok(());
        }
        let scopes: Vec<String> = self.grant.scopes().iter().map(|scope| format!("`{scope}`")).collect();
        Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("this call takes {need}, and the token has {}", scopes.join(", ")),
        )
        .with_hint(format!("use a token with {need}; an admin makes one with `sandbar token new NAME --scope SCOPE`")))
    }

    /// Returns when the token is good for nothing any more, and says why. `None` when that cannot happen.
    pub(super) fn end(&self) -> Option<impl Future<Output = Error> + Send + use<>> {
        let token = self.token.clone()?;
        Some(async move {
            let expired = async {
                match token.expires {
                    Some(expires) => sleep(until(expires)).await,
                    None => std::future::pending().await,
                }
            };
            let why = tokio::select! {
                () = token.revoked.cancelled() => "was revoked",
                () = expired => "has expired",
            };
            Error::new(ErrorCode::Unauthenticated, format!("access token `{}` {why} while the call ran", token.name))
                .with_hint("use another token")
        })
    }
}

fn until(moment: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(Timestamp::now())).unwrap_or_default()
}

/// The address of whoever is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);
