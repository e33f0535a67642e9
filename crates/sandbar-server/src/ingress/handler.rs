//! Handling of requests to sessions.

use std::sync::Arc;

use axum::{body::Body, http::Method};
use hyper::{Request, Response};
use sandbar_core::{DomainName, Error, ErrorCode, Result};
use sandbar_e2b::{CallSlot as _, E2b};
use sandbar_host::Host;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    error_response,
    port_auth::{self, Admission, admit, has_host_token},
    target::{self, Dialect, Target},
};
use crate::access::{CallSlot, Peer, TokenVerifier};

/// Forwards requests to ports of sessions, and owns the tasks that serve their connections.
#[derive(Debug)]
pub(crate) struct Ingress {
    pub(super) host: Arc<Host>,
    pub(super) verifier: TokenVerifier,
    /// Knows the sandboxes that E2B clients created.
    pub(super) e2b: E2b,
    /// Cancelled when the server begins to stop: upgraded connections are closed then.
    pub(super) shutdown: CancellationToken,
    /// Drivers of connections into sessions, and tunnels of upgraded connections.
    tasks: TaskTracker,
    /// Cancelled when the last client connection has ended: the remaining tasks are dropped.
    stopped: CancellationToken,
}

impl Ingress {
    pub(crate) fn new(
        host: Arc<Host>,
        verifier: TokenVerifier,
        e2b: E2b,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            host,
            verifier,
            e2b,
            shutdown,
            tasks: TaskTracker::new(),
            stopped: CancellationToken::new(),
        }
    }

    /// Runs a task until it ends or the ingress stops.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stopped = self.stopped.clone();
        self.tasks.spawn(async move {
            stopped.run_until_cancelled(task).await;
        });
    }

    /// Ends all tasks. For after the last client connection has ended.
    pub(crate) async fn stop(&self) {
        self.stopped.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns the session that a request is for; `None` for the API.
    pub(crate) fn target<B>(&self, request: &Request<B>) -> Result<Option<Target>> {
        target::of(request, self.host.ingress_domain())
    }

    /// Answers a request whose host name or headers name a session.
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
            Err(Rejection {
                dialect: Dialect::Native,
                error,
            }) => error_response::native(&error, request).await,
            Err(Rejection {
                dialect: Dialect::E2b,
                error,
            }) => error_response::e2b(&error, named, request).await,
        }
    }

    async fn serve(
        &self,
        target: Result<Target>,
        request: &mut Request<Body>,
        peer: Peer,
    ) -> Result<Response<Body>, Rejection> {
        let default_dialect = self.default_dialect();
        let header_dialect = Dialect::of(request.headers());
        let target = target.map_err(|error| Rejection {
            dialect: header_dialect.unwrap_or(Dialect::Native),
            error,
        })?;
        let reject_as = |dialect: Dialect| move |error| Rejection { dialect, error };
        if request.method() == Method::CONNECT {
            let error = Error::invalid("method", "ports of a session do not support CONNECT")
                .with_hint("send requests, or upgrade a connection");
            return Err(Rejection {
                dialect: Dialect::Native,
                error,
            });
        }
        let reject = reject_as(target.dialect.unwrap_or(default_dialect));
        let access = match self.host.port_access(&target.session).await {
            Err(error) if error.code() == ErrorCode::SessionNotFound => {
                return Err(reject(self.unknown_session(&target, error, request)));
            }
            access => access.map_err(reject)?,
        };
        let rules = self.e2b.port_rules(&target.session).await.map_err(reject)?;
        let admission = match admit(&target, &access, &self.verifier, request) {
            // Not in the dialect of the session, which would tell that it exists. Ids that E2B
            // clients get are random and not secret, and E2B's own answers tell a private one.
            Err(refusal) => {
                let dialect = target.dialect.unwrap_or(default_dialect);
                let error = if dialect == Dialect::E2b && rules.is_none() {
                    session_not_found(&target)
                } else {
                    refusal
                };
                return Err(Rejection { dialect, error });
            }
            Ok(admission) => admission,
        };
        let session_dialect = if rules.is_some() {
            Dialect::E2b
        } else {
            Dialect::Native
        };
        let reject = reject_as(target.dialect.unwrap_or(session_dialect));
        match admission {
            Admission::Forward(caller) => CallSlot::of(request)
                .and_then(|slot| slot.take(caller.owner(&target.session)))
                .map_err(reject)?,
            Admission::SetCookie(response) => return Ok(response),
        }
        if let Some(rules) = &rules {
            self.e2b
                .wake_for_request(&target.session, rules, access.state)
                .await
                .map_err(reject)?;
        }
        self.forward(&target, request, &access, rules.as_ref(), peer)
            .await
            .map_err(reject)
    }
}

impl Ingress {
    /// Returns the error for a session that does not exist. In our own dialect a request without a
    /// valid token gets the same answer as for a private port of one that exists.
    fn unknown_session(&self, target: &Target, error: Error, request: &Request<Body>) -> Error {
        let is_e2b = target.dialect.unwrap_or(self.default_dialect()) == Dialect::E2b;
        if is_e2b || self.verifier.is_open() || has_host_token(target, &self.verifier, request) {
            return error;
        }
        port_auth::refusal(target, request)
    }

    /// Returns the form of answers before the session is known: a host with an ingress domain of
    /// its own answers in E2B's form, as E2B clients reach it by host name as well, and parse no
    /// other.
    fn default_dialect(&self) -> Dialect {
        if *self.host.ingress_domain() == DomainName::localhost() {
            Dialect::Native
        } else {
            Dialect::E2b
        }
    }
}

fn session_not_found(target: &Target) -> Error {
    Error::new(
        ErrorCode::SessionNotFound,
        format!("session `{}` does not exist", target.session),
    )
    .with_session(&target.session)
}

/// Error of a request that is not forwarded, and the form to report it in.
struct Rejection {
    dialect: Dialect,
    error: Error,
}
