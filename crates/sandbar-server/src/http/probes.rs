//! Endpoints for load balancers and monitoring: `/healthz`, `/readyz` and `/metrics`.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderName, StatusCode, header},
};
use sandbar_core::HealthStatus;
use sandbar_host::Host;

/// Content type of OpenMetrics, which Prometheus reads.
const METRICS_FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Liveness: answers as long as the process does.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Readiness: whether the host accepts new work. Discloses the status only, as it needs no token.
pub(crate) async fn readyz(State(host): State<Arc<Host>>) -> (StatusCode, String) {
    let status = host.health().await.status;
    let code = if status == HealthStatus::Unhealthy {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    (code, format!("{status}\n"))
}

/// Metrics of the host.
pub(crate) async fn metrics(
    State(host): State<Arc<Host>>,
) -> ([(HeaderName, &'static str); 1], String) {
    (
        [(header::CONTENT_TYPE, METRICS_FORMAT)],
        host.metrics_text().await,
    )
}
