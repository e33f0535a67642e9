//! Health and capabilities of the host.

use connectrpc::{Response, ServiceResult};
use sandbar_proto::v1;

use super::service::Service;

pub(super) async fn health_check(service: &Service) -> ServiceResult<v1::HealthCheckResponse> {
    Response::ok(service.host.health().await.into())
}

pub(super) fn capabilities(service: &Service) -> ServiceResult<v1::CapabilitiesResponse> {
    Response::ok(service.host.capabilities().into())
}
