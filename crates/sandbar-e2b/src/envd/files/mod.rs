//! Contents of files over plain HTTP.

use std::sync::Arc;

use axum::Router;

use crate::surface::Surface;

pub(super) fn router(_surface: &Arc<Surface>) -> Router {
    Router::new()
}
