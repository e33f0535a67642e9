//! What is answered on which path.

use std::{sync::Arc, time::Duration};

use axum::{
    Router, middleware,
    routing::{any, get},
};
use connectrpc::{ConnectRpcService, DeadlinePolicy, Limits};
use connectrpc_reflection::Reflector;
use sandbar_core::{Error, Result};
use sandbar_host::Host;
use sandbar_mcp::HttpEndpoint;
use sandbar_proto::{FILE_DESCRIPTOR_SET, MAX_MESSAGE_BYTES};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Gatekeeper, Guarded, Patience, Places, be_patient, guard, tell_version},
    failure::catch_panic,
    health_protocol,
    host_state::{healthz, metrics, readyz},
    mcp::{self, Mcp, mcp},
    openapi::openapi,
    oversize::refuse_oversized,
    service::Service,
    torn_body::blame_torn_bodies,
};

/// What callers are held to.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) gatekeeper: Gatekeeper,
    pub(crate) places: Places,
    pub(crate) request_timeout: Duration,
    pub(crate) slow_reader_timeout: Duration,
}

/// Everything that is the API's. Only the health paths, `grpc.health.v1` and the description are open to callers without
/// a token.
pub(crate) fn router(host: Arc<Host>, bounds: Bounds, shutdown: CancellationToken) -> Result<Router> {
    let reflector = Reflector::from_descriptor_set_bytes(FILE_DESCRIPTOR_SET)
        .map_err(|source| Error::internal("the compiled API description is broken").with_source(source))?;
    let health = Arc::new(health_protocol::calls(host.clone(), shutdown.clone()));
    let service = Service { host: host.clone(), shutdown, slow_reader_timeout: bounds.slow_reader_timeout };
    let calls = connectrpc::Router::new().add_service(Arc::new(service));
    let calls = Arc::new(Guarded::new(connectrpc_reflection::install(calls, reflector)));
    let patience = Patience::new(bounds.request_timeout, Arc::clone(&calls));
    let limits =
        Limits::default().with_max_message_size(MAX_MESSAGE_BYTES).with_max_request_body_size(MAX_MESSAGE_BYTES);
    // A deadline of the caller's is one for the whole call, also where the answer is a stream.
    let deadlines = DeadlinePolicy::new().with_enforce_on_streams(true);
    let health_patience = Patience::new(bounds.request_timeout, Arc::clone(&health));
    let health = ConnectRpcService::from_arc(health).with_limits(limits).with_deadline_policy(deadlines.clone());
    let health = Router::new()
        .route_service(health_protocol::PATH, health)
        .layer(middleware::from_fn(catch_panic))
        .layer(middleware::from_fn_with_state(health_patience, be_patient));
    let calls = ConnectRpcService::from_arc(calls).with_limits(limits).with_deadline_policy(deadlines);
    let calls = Router::new()
        .route("/metrics", get(metrics))
        .with_state(host.clone())
        .fallback_service(calls)
        .layer(middleware::from_fn(catch_panic))
        .layer(middleware::from_fn(blame_torn_bodies))
        .layer(middleware::from_fn(refuse_oversized))
        .layer(middleware::from_fn_with_state(patience, be_patient))
        .layer(middleware::from_fn_with_state((bounds.gatekeeper.clone(), bounds.places), guard));
    let mcp_state = Mcp {
        endpoint: HttpEndpoint::new(),
        gatekeeper: bounds.gatekeeper,
        calls: calls.clone(),
        host: Arc::clone(&host),
    };
    let mcp = Router::new().route(mcp::PATH, any(mcp)).with_state(mcp_state).layer(middleware::from_fn(catch_panic));
    Ok(Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/openapi.json", get(openapi))
        .with_state(host)
        .merge(mcp)
        .merge(health)
        .fallback_service(calls)
        .layer(middleware::from_fn(tell_version)))
}
