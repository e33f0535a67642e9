//! Routes of templates.

use std::sync::Arc;

use axum::{
    Router,
    routing::{get, patch, post, put},
};

use super::{Templates, UPLOADS, catalogue_api, requests, status, tags, uploads};
use crate::rest::RouteTable;

/// Returns the routes that need an API key.
pub(crate) fn routes() -> RouteTable<Arc<Templates>> {
    RouteTable::new([
        ("/v3/templates", post(requests::third_version)),
        (
            "/v2/templates",
            get(catalogue_api::list_page).post(requests::second_version),
        ),
        (
            "/templates",
            get(catalogue_api::list).post(requests::with_docker),
        ),
        ("/templates/tags", post(tags::assign).delete(tags::remove)),
        ("/templates/aliases/{alias}", get(catalogue_api::get_alias)),
        (
            "/templates/{id}",
            get(catalogue_api::get)
                .post(requests::with_docker)
                .patch(catalogue_api::update)
                .delete(catalogue_api::delete),
        ),
        ("/v2/templates/{id}", patch(catalogue_api::update)),
        ("/templates/{id}/tags", get(tags::list)),
        ("/templates/{id}/files/{hash}", get(uploads::link)),
        (
            "/templates/{id}/builds/{build}",
            post(requests::with_docker),
        ),
        ("/v2/templates/{id}/builds/{build}", post(requests::start)),
        ("/templates/{id}/builds/{build}/status", get(status::status)),
        ("/templates/{id}/builds/{build}/logs", get(status::logs)),
    ])
}

/// Returns the router for uploads of archives. They carry no key; the URL is signed.
pub(crate) fn uploads_router(templates: &Arc<Templates>) -> Router {
    Router::new()
        .route(&format!("{UPLOADS}/{{hash}}"), put(uploads::receive))
        .with_state(Arc::clone(templates))
}
