//! The REST API of sandboxes. One file a resource.
//!
//! Errors have the shape of E2B's. A field that cannot be honoured is refused by its name; one nobody knows is ignored.

mod connect;
mod create;
mod details;
mod expiry;
mod fields;
mod find;
mod fork;
mod idempotency;
mod kill;
mod list;
mod list_query;
mod logs;
mod machine;
mod metrics;
mod network;
mod not_offered;
mod pause;
mod query;
mod sampler;
mod seconds;
mod snapshots;
mod template;
mod undo;

use std::sync::Arc;

use axum::{
    Router,
    http::StatusCode,
    middleware,
    routing::{any, get, post, put},
};
use sandbar_core::{Error, ErrorCode, SessionId};

pub(crate) use details::ENVD_VERSION;
pub(crate) use fields::Fields;
pub(crate) use network::NetworkConfig;
pub(crate) use query::Query;
pub(crate) use sampler::{Sampler, Samples};
pub(crate) use template::Template;

use crate::{answer::ControlError, surface::Surface, templates};

/// What a handler answers.
type Answer<T> = Result<T, ControlError>;

pub(crate) fn router(surface: &Arc<Surface>) -> Router {
    Router::new()
        .route("/health", get(async || StatusCode::NO_CONTENT))
        .route("/sandboxes", get(list::running).post(create::first_version))
        .route("/v2/sandboxes", get(list::all).post(create::second_version))
        .route("/sandboxes/metrics", get(metrics::of_several))
        .route("/sandboxes/{id}", get(find::find).delete(kill::kill))
        .route("/sandboxes/{id}/connect", post(connect::first_version))
        .route("/v2/sandboxes/{id}/connect", post(connect::second_version))
        .route("/sandboxes/{id}/resume", post(connect::resume))
        .route("/sandboxes/{id}/pause", post(pause::pause))
        .route("/sandboxes/{id}/timeout", post(expiry::set))
        .route("/sandboxes/{id}/refreshes", post(expiry::refresh))
        .route("/sandboxes/{id}/fork", post(fork::first_version))
        .route("/v2/sandboxes/{id}/fork", post(fork::second_version))
        .route("/sandboxes/{id}/network", put(network::update))
        .route("/sandboxes/{id}/metrics", get(metrics::of_one))
        .route("/sandboxes/{id}/logs", get(logs::first_version))
        .route("/v2/sandboxes/{id}/logs", get(logs::second_version))
        .route("/sandboxes/{id}/snapshots", post(snapshots::create))
        .route("/snapshots", get(snapshots::list))
        .route("/sandbar/sandboxes/{id}/snapshots", get(undo::list_snapshots).post(undo::take_snapshot))
        .route("/sandbar/sandboxes/{id}/rollback", post(undo::roll_back))
        .route("/sandbar/sandboxes/{id}/diff", get(undo::diff))
        .route("/sandbar/sandboxes/{id}/turns", post(undo::complete_turn))
        .route("/volumes", any(not_offered::volumes))
        .route("/volumes/{*rest}", any(not_offered::volumes))
        .route("/secrets", any(not_offered::secrets))
        .route("/secrets/{*rest}", any(not_offered::secrets))
        .route("/teams", any(not_offered::teams))
        .route("/teams/{*rest}", any(not_offered::teams))
        .merge(templates::routes())
        .method_not_allowed_fallback(async || {
            ControlError::new(StatusCode::METHOD_NOT_ALLOWED, "this path of the API has no such method")
        })
        .fallback(async || ControlError::new(StatusCode::NOT_FOUND, "there is no such path in this API"))
        .layer(middleware::from_fn_with_state(Arc::clone(surface), snapshots::delete))
        .with_state(Arc::clone(surface))
}

/// The session a path names. What cannot be a name of one is none that is there.
fn session_id(text: &str) -> Answer<SessionId> {
    SessionId::new(text).map_err(|_| not_found(text))
}

fn not_found(id: &str) -> ControlError {
    let shown: String = id.chars().take(128).collect();
    ControlError::new(StatusCode::NOT_FOUND, format!("Sandbox \"{}\" was not found", shown.escape_debug()))
}

/// An error of a session in the words of E2B, whose fields have other names.
fn in_their_words(error: Error) -> ControlError {
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
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            fields::bad_request(format!("`{field}`: {}{hint}", error.message()))
        }
        _ => error.into(),
    }
}
