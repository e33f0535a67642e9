//! The host itself: health and capabilities, over RPC and for load balancers.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use connectrpc::{Response, ServiceResult};
use sandbar_core::HealthStatus;
use sandbar_host::Host;
use sandbar_proto::v1;

use crate::service::Service;

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
