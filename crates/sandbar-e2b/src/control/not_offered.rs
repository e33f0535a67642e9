//! Parts of the E2B API that this host does not offer: refused explicitly, never ignored.

use axum::http::StatusCode;

use crate::rest::ApiError;

/// Returns a 501 response that names the missing feature.
pub(super) fn refuse(what: &str) -> ApiError {
    ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        format!("{what} is not offered by this host (leave it out)"),
    )
}

pub(super) async fn volumes() -> ApiError {
    refuse("the volumes API (`Volume`, `volumeMounts`)")
}

pub(super) async fn secrets() -> ApiError {
    refuse("the secrets API (`Secret`); put headers into requests with `network.rules`")
}

pub(super) async fn teams() -> ApiError {
    refuse("the API of teams; keys are made with `sandbar token new`, which")
}
