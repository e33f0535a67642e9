//! Ports of sessions, reached by host name on the API's own port.
//!
//! A request for `<port>-<session>.<domain>`, or one that names session and port in its headers, is passed on to the
//! server that listens there in the session. Everything streams; nothing is kept. Headers may be E2B's or our own; who
//! speaks as E2B's clients do, or comes to a sandbox that one of them made, is answered as E2B does.
//!
//! Invariant: a request goes either to the API or into a session, and its host name alone decides where it has one: a
//! page that a session serves cannot call the API as its own origin, nor another session. What opens this host never
//! reaches a session.

mod entry;
mod forward;
#[cfg(fuzzing)]
mod fuzzing;
mod headers;
mod https;
mod refusal;
mod target;
mod tunnel;
mod visit;

#[cfg(fuzzing)]
pub use fuzzing::ingress_request;

use std::sync::Arc;

use axum::{body::Body, http::Method};
use hyper::{Request, Response};
use sandbar_core::{DomainName, Error, Result};
use sandbar_e2b::E2b;
use sandbar_host::Host;
use tokio_util::sync::CancellationToken;

use self::{
    entry::{Entry, admit},
    target::{Dialect, Target},
};
use crate::access::{Gatekeeper, Peer};

/// The way in for requests to sessions.
#[derive(Debug)]
pub(crate) struct Ingress {
    pub(crate) host: Arc<Host>,
    pub(crate) gatekeeper: Gatekeeper,
    /// Knows sandboxes that E2B's clients made.
    pub(crate) e2b: E2b,
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
        let (named, target) = match target {
            Ok(target) => (Some((target.session.to_string(), target.port)), Ok(target)),
            Err(error) => (None, Err(error)),
        };
        match self.serve(target, &mut request, peer).await {
            Ok(response) => response,
            Err(Refused { dialect: Dialect::Native, error }) => refusal::refuse(&error, request).await,
            Err(Refused { dialect: Dialect::E2b, error }) => refusal::refuse_e2b(&error, named, request).await,
        }
    }

    async fn serve(
        &self,
        target: Result<Target>,
        request: &mut Request<Body>,
        peer: Peer,
    ) -> Result<Response<Body>, Refused> {
        // Below a domain of its own a host is spoken to by E2B's clients as well, and those know no other answer.
        let is_for_e2b = *self.host.ingress_domain() != DomainName::localhost();
        let unsaid = if is_for_e2b { Dialect::E2b } else { Dialect::Native };
        let said = Dialect::of(request.headers());
        let target = target.map_err(|error| Refused { dialect: said.unwrap_or(Dialect::Native), error })?;
        let in_words = |dialect: Dialect| move |error| Refused { dialect, error };
        if request.method() == Method::CONNECT {
            let error = Error::invalid("method", "a port of a session is no proxy: CONNECT leads nowhere")
                .with_hint("send requests, or upgrade a connection");
            return Err(Refused { dialect: Dialect::Native, error });
        }
        let early = in_words(target.dialect.unwrap_or(unsaid));
        let access = self.host.port_access(&target.session).await.map_err(early)?;
        let rules = self.e2b.port_rules(&target.session).await.map_err(early)?;
        let made_by = if rules.is_some() { Dialect::E2b } else { Dialect::Native };
        let refused = in_words(target.dialect.unwrap_or(made_by));
        match admit(&target, &access, &self.gatekeeper, request).map_err(refused)? {
            Entry::Open => {}
            Entry::Visit(answer) => return Ok(answer),
        }
        if let Some(rules) = &rules {
            self.e2b.wake_for_request(&target.session, rules, access.state).await.map_err(refused)?;
        }
        self.pass_on(&target, request, &access, rules.as_ref(), peer).await.map_err(refused)
    }
}

/// A request that is not passed on, and in whose words that is said.
struct Refused {
    dialect: Dialect,
    error: Error,
}
