//! How long a call may take that says nothing about it.

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
use crate::failure::{failed, refusal};

/// What callers say it with. The protocols keep to that by themselves.
const DEADLINES: [HeaderName; 2] =
    [HeaderName::from_static("connect-timeout-ms"), HeaderName::from_static("grpc-timeout")];

/// The time unary calls have. Streams go on as long as both sides want.
#[derive(Debug)]
pub(crate) struct Patience<D> {
    /// Zero is any time.
    request_timeout: Duration,
    calls: Arc<D>,
}

impl<D> Clone for Patience<D> {
    fn clone(&self) -> Self {
        Self { request_timeout: self.request_timeout, calls: Arc::clone(&self.calls) }
    }
}

impl<D: Dispatcher> Patience<D> {
    pub(crate) fn new(request_timeout: Duration, calls: Arc<D>) -> Self {
        Self { request_timeout, calls }
    }

    fn with(&self, path: &str, headers: &HeaderMap) -> Option<Duration> {
        let has_deadline = DEADLINES.iter().any(|name| headers.contains_key(name));
        let path = path.strip_prefix('/')?;
        let is_unary = || self.calls.lookup(path).is_some_and(|call| call.kind == MethodKind::Unary);
        let bounded =
            !has_deadline && !self.request_timeout.is_zero() && is_unary() && !rules::waits_for_a_session(path);
        bounded.then_some(self.request_timeout)
    }
}

/// Ends a unary call without a deadline of its own that takes too long, the arrival of its request included.
pub(crate) async fn be_patient<D: Dispatcher>(
    State(patience): State<Patience<D>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(time) = patience.with(request.uri().path(), request.headers()) else { return next.run(request).await };
    let headers = request.headers().clone();
    timeout(time, next.run(request)).await.unwrap_or_else(|_| {
        let error = Error::new(ErrorCode::Timeout, format!("the call has taken {time:?}, which is the longest"))
            .with_hint(
                "what changes a session is finished all the same: look before you repeat it; give the call a deadline \
                 of its own, or raise `request_timeout`",
            );
        refusal(failed(error), &headers)
    })
}
