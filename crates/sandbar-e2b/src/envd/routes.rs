//! Routes of envd.

use std::sync::Arc;

use axum::{Router, http::StatusCode, middleware::from_fn, routing::get};
use connectrpc::{ConnectRpcService, Limits};

use super::{Envd, abort, env, files, filesystem, process, time_limit};
use crate::protocol::HEALTH;

/// SDKs send chunks of input and whole listings in one message.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

pub(crate) fn router(envd: &Arc<Envd>) -> Router {
    let services = filesystem::register(process::register(connectrpc::Router::new(), envd), envd);
    let limits = Limits::default()
        .with_max_message_size(MAX_MESSAGE_BYTES)
        .with_max_request_body_size(MAX_MESSAGE_BYTES);
    let services = ConnectRpcService::new(services).with_limits(limits);
    let services = Router::new()
        .fallback_service(services)
        .layer(from_fn(time_limit::keep_for_streams))
        .layer(from_fn(abort::make_abortable));
    Router::new()
        .route(HEALTH, get(async || StatusCode::NO_CONTENT))
        .route("/envs", get(env::list))
        .merge(files::router(envd))
        .fallback_service(services)
}
