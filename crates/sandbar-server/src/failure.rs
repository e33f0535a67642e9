//! From the host's errors to the caller's.

use std::panic::AssertUnwindSafe;

use axum::{
    body::Body,
    extract::Request,
    http::HeaderMap,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use connectrpc::ConnectError;
use futures::FutureExt as _;
use sandbar_core::{Error, ErrorCode, SessionId};
use sandbar_proto::to_connect;

/// The error of a call that is not about one session.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` calls")]
pub(crate) fn failed(error: Error) -> ConnectError {
    report(&error);
    to_connect(&error, None)
}

/// The error of a call about a session.
pub(crate) fn failed_in(session: &SessionId) -> impl Fn(Error) -> ConnectError + Clone + use<> {
    let session = session.clone();
    move |error| {
        report(&error);
        to_connect(&error, Some(&session))
    }
}

/// Who waits for something could wait for ever; who stops a server does not want to.
pub(crate) fn host_is_stopping() -> Error {
    Error::new(ErrorCode::Unavailable, "this host is stopping").with_hint("ask again when it is back")
}

/// As [`host_is_stopping`], for a call about a session.
pub(crate) fn stopping(session: &SessionId) -> ConnectError {
    failed_in(session)(host_is_stopping())
}

/// Faults of ours are for the operator too; everything else is the caller's business.
fn report(error: &Error) {
    if error.code() == ErrorCode::Internal {
        tracing::error!(error = error.chain(), "a call failed");
    }
}

/// The answer to a call that does not reach its handler, in the call's own protocol.
pub(crate) fn refusal(error: ConnectError, request: &HeaderMap) -> Response {
    let mut response = error.into_http_response(request).map(Body::new).into_response();
    // The end of the answer says it again, and with our detail; who finds it at the beginning does not read so far.
    for name in ["grpc-status", "grpc-message"] {
        response.headers_mut().remove(name);
    }
    response
}

/// Answers a call whose handler panicked, so that its caller hears of a fault and not of silence. The panic itself was
/// reported by the panic hook.
pub(crate) async fn catch_panic(request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        let error = Error::internal("the server hit a bug while it answered this call");
        refusal(failed(error), &headers)
    })
}

#[cfg(test)]
mod tests {
    use axum::{Router, middleware, routing::post};
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_handler_that_panics_is_an_internal_error_to_its_caller() {
        let handler = async || assert!(Request::new(()).headers().contains_key("x-there"), "a bug");
        let router = Router::new().route("/", post(handler)).layer(middleware::from_fn(catch_panic));
        let response = router.oneshot(Request::post("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 500);
    }
}
