//! Ports of sessions, reached by host name on the API's own port.
//!
//! A request for `<port>-<session>.<domain>`, or one that names session and port in its headers, is passed on to the
//! server that listens there in the session. Everything streams; nothing is kept.
//!
//! Invariant: a request goes either to the API or into a session, and its host name alone decides where it has one: a
//! page that a session serves cannot call the API as its own origin, nor another session. What opens this host never
//! reaches a session.

mod entry;
mod forward;
mod fuzzing;
mod headers;
mod refusal;
mod target;
mod tunnel;
mod visit;

pub use fuzzing::ingress_request;

use std::sync::Arc;

use axum::{body::Body, http::Method};
use hyper::{Request, Response};
use sandbar_core::{Error, Result};
use sandbar_host::Host;
use tokio_util::sync::CancellationToken;

use self::{
    entry::{Entry, admit},
    target::Target,
};
use crate::access::{Gatekeeper, Peer};

/// The way in for requests to sessions.
#[derive(Debug)]
pub(crate) struct Ingress {
    pub(crate) host: Arc<Host>,
    pub(crate) gatekeeper: Gatekeeper,
    /// Cancelled when the server begins to stop: connections that were handed over are closed then.
    pub(crate) shutdown: CancellationToken,
}

impl Ingress {
    /// Which session a request is for; `None` is the API.
    pub(crate) fn target<B>(&self, request: &Request<B>) -> Result<Option<Target>> {
        target::of(request, self.host.ingress_domain())
    }

    /// Answers a request for a session, or one that is for nobody.
    pub(crate) async fn answer(
        self: Arc<Self>,
        target: Result<Target>,
        mut request: Request<Body>,
        peer: Peer,
    ) -> Response<Body> {
        match self.serve(target, &mut request, peer).await {
            Ok(response) => response,
            Err(error) => refusal::refuse(&error, request).await,
        }
    }

    async fn serve(&self, target: Result<Target>, request: &mut Request<Body>, peer: Peer) -> Result<Response<Body>> {
        let target = target?;
        if request.method() == Method::CONNECT {
            return Err(Error::invalid("method", "a port of a session is no proxy: CONNECT leads nowhere")
                .with_hint("send requests, or upgrade a connection"));
        }
        let access = self.host.port_access(&target.session).await?;
        match admit(&target, &access, &self.gatekeeper, request)? {
            Entry::Open => self.pass_on(&target, request, peer).await,
            Entry::Visit(answer) => Ok(answer),
        }
    }
}
