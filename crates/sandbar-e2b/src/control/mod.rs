//! The REST API of sandboxes. One file a resource.

mod sandboxes;

use std::sync::Arc;

use axum::{
    Router,
    http::StatusCode,
    routing::{get, post},
};

use crate::{answer::ControlError, surface::Surface};

/// What a handler answers.
type Answer<T> = Result<T, ControlError>;

pub(crate) fn router(surface: &Arc<Surface>) -> Router {
    Router::new()
        .route("/sandboxes", post(sandboxes::create))
        .route("/v2/sandboxes", post(sandboxes::create))
        .route("/sandboxes/{id}", get(sandboxes::find).delete(sandboxes::kill))
        .fallback(async || ControlError::new(StatusCode::NOT_FOUND, "there is no such path in this API"))
        .with_state(Arc::clone(surface))
}
