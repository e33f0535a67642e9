//! Error responses to requests that are not forwarded.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header},
};
use sandbar_core::{Error, ErrorCode};
use sandbar_e2b::PortProblem;

use super::port_auth::has_token_header;
use crate::http::drain_body;

/// Answers with the error and its hint as plain text.
pub(super) async fn native(error: &Error, request: Request<Body>) -> Response<Body> {
    if error.code() == ErrorCode::Internal {
        tracing::error!(error = error.chain(), "request could not be forwarded");
    }
    drain_body(request).await;
    let hint = error
        .hint()
        .map(|hint| format!("hint: {hint}\n"))
        .unwrap_or_default();
    let mut response = Response::new(Body::from(format!("sandbar: {}\n{hint}", error.message())));
    *response.status_mut() = status(error);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if error.code() == ErrorCode::Unauthenticated {
        headers.insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("sandbar-traffic-token"),
        );
    }
    response
}

/// Answers as E2B does, or as plain text for errors that E2B does not have. `named` is the session
/// and its port.
pub(super) async fn e2b(
    error: &Error,
    named: Option<(String, u16)>,
    request: Request<Body>,
) -> Response<Body> {
    let Some(response) = e2b_response(error, named, request.headers()) else {
        return native(error, request).await;
    };
    drain_body(request).await;
    response
}

fn e2b_response(
    error: &Error,
    named: Option<(String, u16)>,
    headers: &HeaderMap,
) -> Option<Response<Body>> {
    let problem = match error.code() {
        // E2B reports a sandbox that does not run as not found.
        ErrorCode::SessionNotFound
        | ErrorCode::SessionPaused
        | ErrorCode::SessionDestroying
        | ErrorCode::RollbackInProgress => PortProblem::NotFound,
        ErrorCode::Unavailable if error.field() == Some("port") => PortProblem::NotOpen,
        ErrorCode::Unauthenticated if has_token_header(headers) => PortProblem::WrongToken,
        ErrorCode::Unauthenticated => PortProblem::NoToken,
        _ => return None,
    };
    let sent = || {
        headers
            .get(sandbar_e2b::SANDBOX)
            .map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned())
    };
    let (sandbox, port) = named.unwrap_or_else(|| (sent().unwrap_or_default(), 0));
    Some(problem.response(&sandbox, port, headers))
}

fn status(error: &Error) -> StatusCode {
    match error.code() {
        ErrorCode::SessionNotFound => StatusCode::NOT_FOUND,
        ErrorCode::SessionPaused
        | ErrorCode::SessionDestroying
        | ErrorCode::RollbackInProgress
        | ErrorCode::InvalidState => StatusCode::CONFLICT,
        ErrorCode::InvalidArgument => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorCode::TooManyCalls => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
        // Field `port`: nothing listens there. Otherwise the host itself is unavailable.
        ErrorCode::Unavailable if error.field() == Some("port") => StatusCode::BAD_GATEWAY,
        ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
