//! Errors about templates and builds.

use axum::http::StatusCode;

use crate::rest::ApiError;

/// Longest part of a name that is repeated in an error.
const MAX_SHOWN_CHARS: usize = 128;

pub(super) fn not_found(name: &str) -> ApiError {
    let shown: String = name.chars().take(MAX_SHOWN_CHARS).collect();
    let why = format!(
        "template '{}' not found (use `base`, the id of a snapshot, or build one with `Template.build`)",
        shown.escape_debug()
    );
    ApiError::new(StatusCode::NOT_FOUND, why)
}

pub(super) fn build_not_found(id: &str) -> ApiError {
    let shown: String = id.chars().take(MAX_SHOWN_CHARS).collect();
    let why = format!(
        "build '{}' not found (request one with `POST /v3/templates`)",
        shown.escape_debug()
    );
    ApiError::new(StatusCode::NOT_FOUND, why)
}
