//! Routes of the API and the middleware of each.

use std::{sync::Arc, time::Duration};

use axum::{
    Router, middleware,
    routing::{any, get},
};
use connectrpc::{ConnectRpcService, DeadlinePolicy};
use connectrpc_reflection::Reflector;
use sandbar_core::{Error, Result};
use sandbar_host::Host;
use sandbar_mcp::HttpEndpoint;
use sandbar_proto::{FILE_DESCRIPTOR_SET, MAX_MESSAGE_BYTES};
use tokio_util::sync::CancellationToken;

use super::{
    body_errors::map_body_errors,
    catch_panic::catch_panic,
    mcp::{self, Mcp, mcp},
    openapi::openapi,
    oversize::reject_oversized,
    probes::{healthz, metrics, readyz},
};
use crate::{
    access::{
        Authorizer, DefaultDeadline, TokenVerifier, add_version_header, authenticate,
        enforce_deadline,
    },
    rpc::{Service, grpc_health},
};

/// Limits of API calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) request_timeout: Duration,
    pub(super) slow_reader_timeout: Duration,
}

/// Builds the router of the API. Health, `grpc.health.v1` and the OpenAPI description are the only
/// routes without authentication.
pub(super) fn router(
    host: Arc<Host>,
    verifier: TokenVerifier,
    limits: Limits,
    shutdown: CancellationToken,
) -> Result<Router> {
    let reflector =
        Reflector::from_descriptor_set_bytes(FILE_DESCRIPTOR_SET).map_err(|source| {
            Error::internal("compiled API descriptor is invalid").with_source(source)
        })?;
    let health = Arc::new(grpc_health::dispatcher(host.clone(), shutdown.clone()));
    let service = Service {
        host: host.clone(),
        shutdown,
        slow_reader_timeout: limits.slow_reader_timeout,
    };
    let calls = connectrpc::Router::new().add_service(Arc::new(service));
    let calls = Arc::new(Authorizer::new(connectrpc_reflection::install(
        calls, reflector,
    )));
    let deadline = DefaultDeadline::new(limits.request_timeout, Arc::clone(&calls));
    let message_limits = connectrpc::Limits::default()
        .with_max_message_size(MAX_MESSAGE_BYTES)
        .with_max_request_body_size(MAX_MESSAGE_BYTES);
    // A caller's deadline covers the whole call, also when the response is a stream.
    let deadlines = DeadlinePolicy::new().with_enforce_on_streams(true);
    let health_deadline = DefaultDeadline::new(limits.request_timeout, Arc::clone(&health));
    let health = ConnectRpcService::from_arc(health)
        .with_limits(message_limits)
        .with_deadline_policy(deadlines.clone());
    let health = Router::new()
        .route_service(grpc_health::PATH, health)
        .layer(middleware::from_fn(catch_panic))
        .layer(middleware::from_fn_with_state(
            health_deadline,
            enforce_deadline,
        ));
    let calls = ConnectRpcService::from_arc(calls)
        .with_limits(message_limits)
        .with_deadline_policy(deadlines);
    let calls = Router::new()
        .route("/metrics", get(metrics))
        .with_state(host.clone())
        .fallback_service(calls)
        .layer(middleware::from_fn(catch_panic))
        .layer(middleware::from_fn(map_body_errors))
        .layer(middleware::from_fn(reject_oversized))
        .layer(middleware::from_fn_with_state(deadline, enforce_deadline))
        .layer(middleware::from_fn_with_state(
            verifier.clone(),
            authenticate,
        ));
    let mcp_state = Mcp {
        endpoint: HttpEndpoint::new(),
        verifier,
        calls: calls.clone(),
        host: Arc::clone(&host),
    };
    let mcp = Router::new()
        .route(mcp::PATH, any(mcp))
        .with_state(mcp_state)
        .layer(middleware::from_fn(catch_panic));
    Ok(Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/openapi.json", get(openapi))
        .with_state(host)
        .merge(mcp)
        .merge(health)
        .fallback_service(calls)
        .layer(middleware::from_fn(add_version_header)))
}
