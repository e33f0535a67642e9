//! Authentication middleware.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use sandbar_core::{Actor, Result};
use sandbar_host::acting_as;
use sandbar_proto::to_connect;

use super::{Caller, ConcurrencyLimit, TokenVerifier, concurrency::CallPermit, rules, version};
use crate::rpc::errors::error_response;

/// Rejects requests without a valid token, in the protocol of the request. Adds the [`Caller`] to
/// the extensions of the others and names it to the audit log.
pub(crate) async fn authenticate(
    State((verifier, concurrency)): State<(TokenVerifier, ConcurrencyLimit)>,
    mut request: Request,
    next: Next,
) -> Response {
    match admit(&verifier, &concurrency, &request) {
        Ok((caller, actor, permit)) => {
            request.extensions_mut().insert(caller);
            acting_as(actor, next.run(request))
                .await
                .map(|body| permit.hold_for(body))
        }
        Err(error) => error_response(to_connect(&error, None), request.headers()),
    }
}

fn admit(
    verifier: &TokenVerifier,
    concurrency: &ConcurrencyLimit,
    request: &Request,
) -> Result<(Caller, Actor, CallPermit)> {
    version::check(request.headers())?;
    let caller = verifier.identify(request.headers())?;
    caller.require(rules::for_path(request.uri().path()))?;
    let actor = caller.actor(request.extensions())?;
    let permit = concurrency.acquire(caller.name())?;
    Ok((caller, actor, permit))
}
