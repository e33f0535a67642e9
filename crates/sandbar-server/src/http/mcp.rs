//! MCP endpoint on the API's port.
//!
//! It calls the API in process with the caller's own token, and has no other access to the host. A
//! tool call therefore passes the same access rules, and is in the audit log under the caller's
//! name.

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::Body,
    extract::{Request, State},
    http::{header, uri::Authority},
    response::Response,
};
use sandbar_client::Client;
use sandbar_host::Host;
use sandbar_mcp::{HttpEndpoint, PortNames};

use super::dispatch::Transport;
use crate::access::{CallSlot, Peer, TokenVerifier};

/// Route of the MCP endpoint.
pub(crate) const PATH: &str = "/mcp";

/// State of the MCP route.
#[derive(Clone, Debug)]
pub(crate) struct Mcp {
    pub(crate) endpoint: HttpEndpoint,
    pub(crate) verifier: TokenVerifier,
    /// API routes behind [`authenticate`](crate::access::authenticate()).
    pub(crate) calls: Router,
    pub(crate) host: Arc<Host>,
}

/// Handles one request of an MCP client.
pub(crate) async fn mcp(State(mcp): State<Mcp>, request: Request<Body>) -> Response {
    if let Err(error) = mcp.verifier.check(&request) {
        return HttpEndpoint::reject(&error);
    }
    let authorization = request.headers().get(header::AUTHORIZATION).cloned();
    let ports =
        PortNames::of_host(&origin(&request)).with_domain(mcp.host.ingress_domain().as_str());
    // The calls of a tool run in the slot of the request.
    let calls = match (request.extensions().get::<Peer>(), CallSlot::of(&request)) {
        (Some(peer), Ok(slot)) => mcp
            .calls
            .layer(Extension(*peer))
            .layer(Extension(slot.clone())),
        _ => mcp.calls,
    };
    mcp.endpoint
        .answer(request, Client::in_process(calls, authorization), ports)
        .await
}

/// Returns scheme, name and port by which the caller reached this host.
fn origin<B>(request: &Request<B>) -> String {
    let scheme = match request.extensions().get::<Transport>() {
        Some(Transport::Tls) => "https",
        Some(Transport::Plain) | None => "http",
    };
    let named = request.uri().authority().map(Authority::as_str);
    let field = || {
        request
            .headers()
            .get(header::HOST)
            .and_then(|host| host.to_str().ok())
    };
    format!("{scheme}://{}", named.or_else(field).unwrap_or("localhost"))
}
