//! Mapping of host errors to RPC errors.

use axum::{
    body::Body,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use connectrpc::ConnectError;
use sandbar_core::{Error, ErrorCode, SessionId};
use sandbar_proto::to_connect;

/// Maps the error of a call that is not about one session.
#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
pub(crate) fn failed(error: Error) -> ConnectError {
    log_internal(&error);
    to_connect(&error, None)
}

/// Maps the error of a call about a session.
pub(crate) fn failed_in(session: &SessionId) -> impl Fn(Error) -> ConnectError + Clone + use<> {
    let session = session.clone();
    move |error| {
        log_internal(&error);
        to_connect(&error, Some(&session))
    }
}

/// Returns the error that ends calls without a time limit of their own when the server stops.
pub(crate) fn host_is_stopping() -> Error {
    Error::new(ErrorCode::Unavailable, "host is stopping")
        .with_hint("repeat the call when the host is back")
}

/// Like [`host_is_stopping`], for a call about a session.
pub(crate) fn stopping(session: &SessionId) -> ConnectError {
    failed_in(session)(host_is_stopping())
}

/// Logs internal errors, which the operator has to know of. All others concern the caller only.
fn log_internal(error: &Error) {
    if error.code() == ErrorCode::Internal {
        tracing::error!(error = error.chain(), "call failed");
    }
}

/// Builds the response to a request that does not reach its handler, in the request's protocol.
pub(crate) fn error_response(error: ConnectError, request: &HeaderMap) -> Response {
    let mut response = error
        .into_http_response(request)
        .map(Body::new)
        .into_response();
    // The trailers repeat the status, with our error detail. A client that finds the status in the
    // headers does not read the trailers.
    for name in ["grpc-status", "grpc-message"] {
        response.headers_mut().remove(name);
    }
    response
}
