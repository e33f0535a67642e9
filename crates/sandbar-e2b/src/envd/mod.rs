//! What E2B runs inside a sandbox: commands and files over Connect, contents over plain HTTP.
//!
//! Nothing of it runs in the sandbox here: the host does what is asked. Every request has passed `visitor.rs`.

mod account;
pub(crate) mod files;
mod filesystem;
mod location;
mod process;
mod tear;
mod time_limit;
mod told;

pub use tear::ResetOnClose;
pub(crate) use told::variables;

use std::sync::Arc;

use axum::{Router, http::StatusCode, middleware::from_fn, routing::get};
use connectrpc::{ConnectRpcService, Limits};

use crate::surface::Surface;

/// Says whether the sandbox is there. Everybody may ask.
pub(crate) const HEALTH: &str = "/health";

/// SDKs send pieces of input and whole answers in one message.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

pub(crate) fn router(surface: &Arc<Surface>) -> Router {
    let calls = filesystem::register(process::register(connectrpc::Router::new(), surface), surface);
    let limits = Limits::default().with_max_message_size(MAX_MESSAGE).with_max_request_body_size(MAX_MESSAGE);
    let calls = ConnectRpcService::new(calls).with_limits(limits);
    let calls = Router::new()
        .fallback_service(calls)
        .layer(from_fn(time_limit::keep_for_streams))
        .layer(from_fn(tear::make_tearable));
    Router::new()
        .route(HEALTH, get(async || StatusCode::NO_CONTENT))
        .route("/envs", get(told::envs))
        .merge(files::router(surface))
        .fallback_service(calls)
}
