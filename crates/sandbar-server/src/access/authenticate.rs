//! Authentication middleware.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use sandbar_core::{Actor, Result};
use sandbar_e2b::CallSlot as _;
use sandbar_host::acting_as;
use sandbar_proto::to_connect;

use super::{CallSlot, Caller, TokenVerifier, rules, version};
use crate::rpc::errors::error_response;

/// Rejects requests without a valid token, in the protocol of the request. Adds the [`Caller`] to
/// the extensions of the others and names it to the audit log.
pub(crate) async fn authenticate(
    State(verifier): State<TokenVerifier>,
    mut request: Request,
    next: Next,
) -> Response {
    match admit(&verifier, &request) {
        Ok((caller, actor)) => {
            request.extensions_mut().insert(caller);
            acting_as(actor, next.run(request)).await
        }
        Err(error) => error_response(to_connect(&error, None), request.headers()),
    }
}

fn admit(verifier: &TokenVerifier, request: &Request) -> Result<(Caller, Actor)> {
    version::check(request.headers())?;
    let caller = verifier.identify(request.headers())?;
    caller.require(rules::for_path(request.uri().path()))?;
    let actor = caller.actor(request.extensions())?;
    CallSlot::of(request)?.take(caller.owner())?;
    Ok((caller, actor))
}
