//! The host itself: health and capabilities, over RPC, for load balancers and for monitoring.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderName, StatusCode, header},
};
use connectrpc::{Response, ServiceResult};
use sandbar_core::HealthStatus;
use sandbar_host::Host;
use sandbar_proto::v1;

use crate::service::Service;

/// OpenMetrics, which Prometheus reads.
const METRICS_FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Service {
    pub(crate) async fn check_health(&self) -> ServiceResult<v1::HealthCheckResponse> {
        Response::ok(self.host.health().await.into())
    }

    pub(crate) fn tell_capabilities(&self) -> ServiceResult<v1::CapabilitiesResponse> {
        Response::ok(self.host.capabilities().into())
    }
}

/// Whether the process answers at all.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the host takes new work. Says no more than one word: nobody had to show a token.
pub(crate) async fn readyz(State(host): State<Arc<Host>>) -> (StatusCode, String) {
    let status = host.health().await.status;
    let code = if status == HealthStatus::Unhealthy { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (code, format!("{status}\n"))
}

/// What monitoring reads.
pub(crate) async fn metrics(State(host): State<Arc<Host>>) -> ([(HeaderName, &'static str); 1], String) {
    ([(header::CONTENT_TYPE, METRICS_FORMAT)], host.metrics_text().await)
}
