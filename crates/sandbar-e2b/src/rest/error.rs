//! Errors in the shapes the SDKs read.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use connectrpc::ConnectError;
use sandbar_core::{Error, ErrorCode, SessionId};
use serde_json::{Value, json};

use super::{json::Json, port_problem::PortProblem};
use crate::protocol::ENVD_PORT;

/// Tells SDKs whether to retry.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// Result of a handler.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// Error response of the REST API and of `/files`.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
    /// Sends `should-retry: false`. SDKs retry some statuses by themselves, which for this error
    /// would only delay the report to the user.
    is_final: bool,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            is_final: false,
        }
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the body of the response, also used as one element of a batch response.
    pub(crate) fn to_value(&self) -> Value {
        json!({ "code": self.status.as_u16(), "message": self.message })
    }
}

/// Returns a 400 response.
pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, message)
}

/// Returns message and hint in one text, because SDKs show a single string.
fn text(error: &Error) -> String {
    if error.code() == ErrorCode::SessionNotFound {
        let name = error.session().map(SessionId::as_str).unwrap_or_default();
        return format!("Sandbox \"{name}\" was not found (it was killed, or its time was up)");
    }
    match error.hint() {
        Some(hint) => format!("{} ({hint})", error.message()),
        None => error.message().to_owned(),
    }
}

fn log_internal(error: &Error) {
    if error.code() == ErrorCode::Internal {
        tracing::error!(error = error.chain(), "call of an E2B client failed");
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        log_internal(&error);
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
        Self {
            status,
            message: text(&error),
            is_final,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.to_value())).into_response();
        if self.is_final {
            response
                .headers_mut()
                .insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}

/// Returns the response for a sandbox that cannot be reached. SDKs recognise its text.
pub(crate) fn sandbox_not_found(sandbox: &str) -> Response {
    PortProblem::NotFound.response(sandbox, ENVD_PORT, &HeaderMap::new())
}

/// Converts an error to that of a Connect call.
#[expect(clippy::needless_pass_by_value, reason = "called by `map_err`")]
pub(crate) fn rpc_error(error: Error) -> ConnectError {
    log_internal(&error);
    let code = error
        .code()
        .rpc_code()
        .parse()
        .unwrap_or(connectrpc::ErrorCode::Internal);
    ConnectError::new(code, text(&error))
}

/// Returns the response for a sandbox that cannot serve a request. E2B has one for every state in
/// which a sandbox does not run.
pub(crate) fn not_served(sandbox: &str, error: Error) -> Response {
    match error.code() {
        ErrorCode::SessionNotFound | ErrorCode::SessionPaused | ErrorCode::SessionDestroying => {
            sandbox_not_found(sandbox)
        }
        _ => ApiError::from(error).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_that_does_not_run_is_a_bad_gateway() {
        for code in [
            ErrorCode::SessionNotFound,
            ErrorCode::SessionPaused,
            ErrorCode::SessionDestroying,
        ] {
            assert_eq!(
                not_served("s1", Error::new(code, "")).status(),
                StatusCode::BAD_GATEWAY,
                "{code:?}"
            );
        }
        assert_eq!(
            not_served("s1", Error::new(ErrorCode::StorageFull, "")).status(),
            StatusCode::INSUFFICIENT_STORAGE
        );
    }

    #[test]
    fn missing_sandbox_is_named_from_the_session_of_the_error() {
        let error = Error::new(ErrorCode::SessionNotFound, "session does not exist")
            .with_session(&SessionId::new("s1").unwrap());
        assert_eq!(
            text(&error),
            "Sandbox \"s1\" was not found (it was killed, or its time was up)"
        );
    }
}
