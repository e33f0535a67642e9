//! The first gate: every request that is not for the health paths passes here.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use sandbar_core::{Actor, Result};
use sandbar_host::acting_as;
use sandbar_proto::to_connect;

use super::{Caller, Gatekeeper, Places, places::Place, rules, version};
use crate::failure::refusal;

/// Lets a request through when somebody known sends it, and answers in its own protocol when not.
pub(crate) async fn guard(
    State((gatekeeper, places)): State<(Gatekeeper, Places)>,
    mut request: Request,
    next: Next,
) -> Response {
    match admit(&gatekeeper, &places, &request) {
        Ok((caller, actor, place)) => {
            request.extensions_mut().insert(caller);
            acting_as(actor, next.run(request)).await.map(|body| place.keep_for(body))
        }
        Err(error) => refusal(to_connect(&error, None), request.headers()),
    }
}

fn admit(gatekeeper: &Gatekeeper, places: &Places, request: &Request) -> Result<(Caller, Actor, Place)> {
    version::check(request.headers())?;
    let caller = gatekeeper.identify(request.headers())?;
    caller.require(rules::of_page(request.uri().path()))?;
    let actor = caller.actor(request.extensions())?;
    let place = places.take(caller.name())?;
    Ok((caller, actor, place))
}
