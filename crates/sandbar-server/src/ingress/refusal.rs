//! Answers of the host in the place of a session, for people to read.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header},
};
use sandbar_core::{Error, ErrorCode};
use sandbar_e2b::PortProblem;

use super::entry::shows_token;
use crate::oversize::hear_out;

/// Says what is wrong, and what to do about it.
pub(super) async fn refuse(error: &Error, request: Request<Body>) -> Response<Body> {
    if error.code() == ErrorCode::Internal {
        tracing::error!(error = error.chain(), "a request could not be passed on");
    }
    hear_out(request).await;
    let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
    let mut response = Response::new(Body::from(format!("sandbar: {}\n{hint}", error.message())));
    *response.status_mut() = status(error);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if error.code() == ErrorCode::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("sandbar-traffic-token"));
    }
    response
}

/// Says it as E2B does, where E2B has a word for it. `named` is the session and its port.
pub(super) async fn refuse_e2b(error: &Error, named: Option<(String, u16)>, request: Request<Body>) -> Response<Body> {
    let Some(answer) = e2b_answer(error, named, request.headers()) else { return refuse(error, request).await };
    hear_out(request).await;
    answer
}

fn e2b_answer(error: &Error, named: Option<(String, u16)>, headers: &HeaderMap) -> Option<Response<Body>> {
    let problem = match error.code() {
        // Whoever asks for a port of one that sleeps, asks for something that does not run.
        ErrorCode::SessionNotFound
        | ErrorCode::SessionPaused
        | ErrorCode::SessionDestroying
        | ErrorCode::RollbackInProgress => PortProblem::NotFound,
        ErrorCode::Unavailable if error.field() == Some("port") => PortProblem::NotOpen,
        ErrorCode::Unauthenticated if shows_token(headers) => PortProblem::WrongToken,
        ErrorCode::Unauthenticated => PortProblem::NoToken,
        _ => return None,
    };
    let sent = || headers.get(sandbar_e2b::SANDBOX).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    let (sandbox, port) = named.unwrap_or_else(|| (sent().unwrap_or_default(), 0));
    Some(problem.answer(&sandbox, port, headers))
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
        ErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
        // The port, or the host itself.
        ErrorCode::Unavailable if error.field() == Some("port") => StatusCode::BAD_GATEWAY,
        ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
