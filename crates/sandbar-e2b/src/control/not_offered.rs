//! What E2B has and this host has not. It says so, and nothing pretends.

use axum::http::StatusCode;

use crate::answer::ControlError;

/// The answer to a request for something that is not offered.
pub(super) fn refuse(what: &str) -> ControlError {
    ControlError::new(StatusCode::NOT_IMPLEMENTED, format!("{what} is not offered by this host (leave it out)"))
}

pub(super) async fn volumes() -> ControlError {
    refuse("the volumes API (`Volume`, `volumeMounts`)")
}

pub(super) async fn secrets() -> ControlError {
    refuse("the secrets API (`Secret`); put headers into requests with `network.rules`")
}

pub(super) async fn teams() -> ControlError {
    refuse("the API of teams; keys are made with `sandbar token new`, which")
}
