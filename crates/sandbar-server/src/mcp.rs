//! MCP on the API's own port.
//!
//! It calls the API as its caller would, with the caller's own token, and has no other way to the host. So a call costs
//! its place there, passes the same rules, and is in the audit log under the same name.

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

use crate::{
    access::{Gatekeeper, Peer},
    entrance::Transport,
};

/// Where MCP is served.
pub(crate) const PATH: &str = "/mcp";

/// What it takes to serve it.
#[derive(Clone, Debug)]
pub(crate) struct Mcp {
    pub(crate) endpoint: HttpEndpoint,
    pub(crate) gatekeeper: Gatekeeper,
    /// The calls of the API, behind their guard.
    pub(crate) calls: Router,
    pub(crate) host: Arc<Host>,
}

/// Answers one request of an MCP client.
pub(crate) async fn mcp(State(mcp): State<Mcp>, request: Request<Body>) -> Response {
    let headers = request.headers();
    if let Err(error) = mcp.gatekeeper.recognize(headers) {
        return HttpEndpoint::refuse(&error);
    }
    let authorization = headers.get(header::AUTHORIZATION).cloned();
    let ports = PortNames::of_host(&origin(&request)).with_domain(mcp.host.ingress_domain().as_str());
    let calls = match request.extensions().get::<Peer>() {
        Some(peer) => mcp.calls.layer(Extension(*peer)),
        None => mcp.calls,
    };
    mcp.endpoint.answer(request, Client::in_process(calls, authorization), ports).await
}

/// What the caller knows this host by.
fn origin<B>(request: &Request<B>) -> String {
    let scheme = match request.extensions().get::<Transport>() {
        Some(Transport::Tls) => "https",
        Some(Transport::Plain) | None => "http",
    };
    let named = request.uri().authority().map(Authority::as_str);
    let field = || request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    format!("{scheme}://{}", named.or_else(field).unwrap_or("localhost"))
}
