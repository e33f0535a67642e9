//! What is answered on which path.

use std::sync::Arc;

use axum::{Router, middleware, routing::get};
use connectrpc::{ConnectRpcService, Limits};
use connectrpc_reflection::Reflector;
use sandbar_core::{Error, Result};
use sandbar_host::Host;
use sandbar_proto::{FILE_DESCRIPTOR_SET, MAX_MESSAGE_BYTES};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Gatekeeper, guard, tell_version},
    failure::catch_panic,
    host_state::{healthz, metrics, readyz},
    oversize::refuse_oversized,
    service::Service,
    torn_body::blame_torn_bodies,
};

/// Everything that is the API's. Only the two health paths are open to callers without the token.
pub(crate) fn router(host: Arc<Host>, gatekeeper: Gatekeeper, shutdown: CancellationToken) -> Result<Router> {
    let reflector = Reflector::from_descriptor_set_bytes(FILE_DESCRIPTOR_SET)
        .map_err(|source| Error::internal("the compiled API description is broken").with_source(source))?;
    let calls = connectrpc::Router::new().add_service(Arc::new(Service { host: host.clone(), shutdown }));
    let calls = connectrpc_reflection::install(calls, reflector);
    let limits =
        Limits::default().with_max_message_size(MAX_MESSAGE_BYTES).with_max_request_body_size(MAX_MESSAGE_BYTES);
    let calls = Router::new()
        .route("/metrics", get(metrics))
        .with_state(host.clone())
        .fallback_service(ConnectRpcService::new(calls).with_limits(limits))
        .layer(middleware::from_fn(catch_panic))
        .layer(middleware::from_fn(blame_torn_bodies))
        .layer(middleware::from_fn(refuse_oversized))
        .layer(middleware::from_fn_with_state(gatekeeper, guard));
    Ok(Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(host)
        .fallback_service(calls)
        .layer(middleware::from_fn(tell_version)))
}
