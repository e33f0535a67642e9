//! Routes of the control API.

use std::sync::Arc;

use axum::{
    Router,
    http::StatusCode,
    middleware,
    routing::{any, get, post, put},
};

use super::{
    Control, connect, create, expiry, fork, get as get_sandbox, kill, list, logs, metrics, network,
    not_offered, pause, rollback, snapshots,
};
use crate::{
    protocol::HEALTH,
    rest::{ApiError, RouteTable},
    templates::{self, Templates},
};

/// Returns the routes of sandboxes and snapshots; those of templates are in
/// [`templates::routes`].
pub(crate) fn routes() -> RouteTable<Arc<Control>> {
    RouteTable::new([
        ("/sandboxes", get(list::running).post(create::first_version)),
        ("/v2/sandboxes", get(list::all).post(create::second_version)),
        ("/sandboxes/metrics", get(metrics::of_several)),
        ("/sandboxes/{id}", get(get_sandbox::get).delete(kill::kill)),
        ("/sandboxes/{id}/connect", post(connect::first_version)),
        ("/v2/sandboxes/{id}/connect", post(connect::second_version)),
        ("/sandboxes/{id}/resume", post(connect::resume)),
        ("/sandboxes/{id}/pause", post(pause::pause)),
        ("/sandboxes/{id}/timeout", post(expiry::set)),
        ("/sandboxes/{id}/refreshes", post(expiry::refresh)),
        ("/sandboxes/{id}/fork", post(fork::first_version)),
        ("/v2/sandboxes/{id}/fork", post(fork::second_version)),
        ("/sandboxes/{id}/network", put(network::update)),
        ("/sandboxes/{id}/metrics", get(metrics::of_one)),
        ("/sandboxes/{id}/logs", get(logs::first_version)),
        ("/v2/sandboxes/{id}/logs", get(logs::second_version)),
        ("/sandboxes/{id}/snapshots", post(snapshots::create)),
        ("/snapshots", get(snapshots::list)),
        (
            "/sandbar/sandboxes/{id}/snapshots",
            get(rollback::list_snapshots).post(rollback::create_snapshot),
        ),
        ("/sandbar/sandboxes/{id}/rollback", post(rollback::rollback)),
        ("/sandbar/sandboxes/{id}/diff", get(rollback::diff)),
        (
            "/sandbar/sandboxes/{id}/turns",
            post(rollback::complete_turn),
        ),
        ("/volumes", any(not_offered::volumes)),
        ("/volumes/{*rest}", any(not_offered::volumes)),
        ("/secrets", any(not_offered::secrets)),
        ("/secrets/{*rest}", any(not_offered::secrets)),
        ("/teams", any(not_offered::teams)),
        ("/teams/{*rest}", any(not_offered::teams)),
    ])
}

/// Returns the router of the whole REST API. `/health` is not in the table: the path is shared with
/// envd, so its requests are dispatched by their headers.
pub(crate) fn router(control: &Arc<Control>, templates: &Arc<Templates>) -> Router {
    routes()
        .into_router(Arc::clone(control))
        .route(HEALTH, get(async || StatusCode::NO_CONTENT))
        .merge(templates::routes().into_router(Arc::clone(templates)))
        .method_not_allowed_fallback(async || {
            ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method not allowed for this path",
            )
        })
        .fallback(async || ApiError::new(StatusCode::NOT_FOUND, "path not found in this API"))
        .layer(middleware::from_fn_with_state(
            Arc::clone(control),
            snapshots::delete,
        ))
}
