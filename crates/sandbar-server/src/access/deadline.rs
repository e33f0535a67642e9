//! Default deadline of unary calls.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName},
    middleware::Next,
    response::Response,
};
use connectrpc::{Dispatcher, MethodKind};
use sandbar_core::{Error, ErrorCode};
use tokio::time::timeout;

use super::rules;
use crate::rpc::errors::{error_response, failed};

/// Headers that carry a deadline of the caller's, which the RPC library enforces.
const DEADLINE_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("connect-timeout-ms"),
    HeaderName::from_static("grpc-timeout"),
];

/// Deadline of unary calls that set none themselves. Streams have no default deadline.
#[derive(Debug)]
pub(crate) struct DefaultDeadline<D> {
    /// Zero means no deadline.
    request_timeout: Duration,
    dispatcher: Arc<D>,
}

impl<D> Clone for DefaultDeadline<D> {
    fn clone(&self) -> Self {
        Self {
            request_timeout: self.request_timeout,
            dispatcher: Arc::clone(&self.dispatcher),
        }
    }
}

impl<D: Dispatcher> DefaultDeadline<D> {
    pub(crate) fn new(request_timeout: Duration, dispatcher: Arc<D>) -> Self {
        Self {
            request_timeout,
            dispatcher,
        }
    }

    /// Returns the time limit of a call; `None` when the default deadline does not apply to it.
    fn of(&self, path: &str, headers: &HeaderMap) -> Option<Duration> {
        let has_deadline = DEADLINE_HEADERS
            .iter()
            .any(|name| headers.contains_key(name));
        let path = path.strip_prefix('/')?;
        let is_unary = || {
            self.dispatcher
                .lookup(path)
                .is_some_and(|call| call.kind == MethodKind::Unary)
        };
        let bounded = !has_deadline
            && !self.request_timeout.is_zero()
            && is_unary()
            && !rules::waits_for_session(path);
        bounded.then_some(self.request_timeout)
    }
}

/// Ends a unary call at its default deadline. The time to receive the request body counts.
pub(crate) async fn enforce_deadline<D: Dispatcher>(
    State(deadline): State<DefaultDeadline<D>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(time) = deadline.of(request.uri().path(), request.headers()) else {
        return next.run(request).await;
    };
    let headers = request.headers().clone();
    timeout(time, next.run(request)).await.unwrap_or_else(|_| {
        let error = Error::new(ErrorCode::Timeout, format!("call exceeded its deadline of {time:?}"))
            .with_hint(
                "a call that changes a session still completes: check its state before a retry; set a deadline on the \
                 call, or raise `request_timeout`",
            );
        error_response(failed(error), &headers)
    })
}
