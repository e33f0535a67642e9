//! Errors about sandboxes in the terms of E2B.

use axum::http::StatusCode;
use sandbar_core::{Error, ErrorCode, SessionId};

use crate::rest::{ApiError, ApiResult, bad_request};

/// Parses the sandbox id in a path. An invalid id is reported as a sandbox that does not exist.
pub(super) fn session_id(text: &str) -> ApiResult<SessionId> {
    SessionId::new(text).map_err(|_| not_found(text))
}

pub(super) fn not_found(id: &str) -> ApiError {
    let shown: String = id.chars().take(128).collect();
    ApiError::new(
        StatusCode::NOT_FOUND,
        format!("Sandbox \"{}\" was not found", shown.escape_debug()),
    )
}

/// Converts an error of the host, replacing its field names by those of the E2B API.
pub(super) fn with_e2b_fields(error: Error) -> ApiError {
    let field = match error.field() {
        Some("labels") => Some("metadata"),
        Some("env") => Some("envVars"),
        Some("base_snapshot") => Some("templateID"),
        Some(field) if field.starts_with("network") => Some("network"),
        Some("timeout") => Some("timeout"),
        _ => None,
    };
    match field {
        Some(field) if error.code() == ErrorCode::InvalidArgument => {
            let hint = error
                .hint()
                .map(|hint| format!(" ({hint})"))
                .unwrap_or_default();
            bad_request(format!("`{field}`: {}{hint}", error.message()))
        }
        _ => error.into(),
    }
}
