//! Answers in the shapes the SDKs read.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use connectrpc::ConnectError;
use sandbar_core::{Error, ErrorCode};
use serde_json::{Value, json};

use crate::{json::Json, place::ENVD_PORT, port_answer::PortProblem};

/// Tells SDKs whether to try again.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// An error of the control API.
#[derive(Debug)]
pub(crate) struct ControlError {
    status: StatusCode,
    message: String,
    /// SDKs send some requests again by themselves; here that would only keep the user waiting.
    is_final: bool,
}

impl ControlError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), is_final: false }
    }

    /// The same with another status.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// What is wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// As a part of an answer to a request for several things.
    pub(crate) fn to_value(&self) -> Value {
        json!({ "code": self.status.as_u16(), "message": self.message })
    }
}

/// What is wrong, and what to do about it, in one text: SDKs show nothing else.
fn text(error: &Error) -> String {
    if error.code() == ErrorCode::SessionNotFound {
        let name = error.message().split('`').nth(1).unwrap_or_default();
        return format!("Sandbox \"{name}\" was not found (it was killed, or its time was up)");
    }
    match error.hint() {
        Some(hint) => format!("{} ({hint})", error.message()),
        None => error.message().to_owned(),
    }
}

fn report(error: &Error) {
    if error.code() == ErrorCode::Internal {
        tracing::error!(error = error.chain(), "a call of an E2B client failed");
    }
}

impl From<Error> for ControlError {
    fn from(error: Error) -> Self {
        report(&error);
        let status = match error.code().rpc_code() {
            "not_found" => StatusCode::NOT_FOUND,
            "already_exists" | "failed_precondition" => StatusCode::CONFLICT,
            "resource_exhausted" => StatusCode::TOO_MANY_REQUESTS,
            "invalid_argument" => StatusCode::BAD_REQUEST,
            "deadline_exceeded" => StatusCode::GATEWAY_TIMEOUT,
            "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
            "unauthenticated" => StatusCode::UNAUTHORIZED,
            "permission_denied" => StatusCode::FORBIDDEN,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let (status, is_final) = match error.code() {
            ErrorCode::MaxSessionsReached => (status, true),
            ErrorCode::StorageFull => (StatusCode::INSUFFICIENT_STORAGE, true),
            _ => (status, false),
        };
        Self { status, message: text(&error), is_final }
    }
}

impl IntoResponse for ControlError {
    fn into_response(self) -> Response {
        let mut answer = (self.status, Json(self.to_value())).into_response();
        if self.is_final {
            answer.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        answer
    }
}

/// The answer for a sandbox nobody can reach: SDKs tell by its text that it is gone.
pub(crate) fn sandbox_not_found(sandbox: &str) -> Response {
    PortProblem::NotFound.answer(sandbox, ENVD_PORT, &HeaderMap::new())
}

/// An error of a Connect call.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` calls")]
pub(crate) fn rpc_error(error: Error) -> ConnectError {
    report(&error);
    let code = error.code().rpc_code().parse().unwrap_or(connectrpc::ErrorCode::Internal);
    ConnectError::new(code, text(&error))
}

/// The answer for a sandbox that cannot serve a request. E2B has one for all that do not run.
pub(crate) fn not_served(sandbox: &str, error: Error) -> Response {
    match error.code() {
        ErrorCode::SessionNotFound | ErrorCode::SessionPaused | ErrorCode::SessionDestroying => {
            sandbox_not_found(sandbox)
        }
        _ => ControlError::from(error).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_does_not_run_is_a_bad_gateway() {
        for code in [ErrorCode::SessionNotFound, ErrorCode::SessionPaused, ErrorCode::SessionDestroying] {
            assert_eq!(not_served("s1", Error::new(code, "")).status(), StatusCode::BAD_GATEWAY, "{code:?}");
        }
        assert_eq!(not_served("s1", Error::new(ErrorCode::StorageFull, "")).status(), StatusCode::INSUFFICIENT_STORAGE);
    }
}
