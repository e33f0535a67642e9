//! Audit log calls.

use connectrpc::{Response, ServiceResult};
use sandbar_core::SessionId;
use sandbar_proto::v1;

use super::{
    errors::{failed, failed_in},
    service::Service,
};

pub(super) async fn audit(
    service: &Service,
    request: v1::AuditRequest,
) -> ServiceResult<v1::AuditResponse> {
    let (id, query) = request.unpack().map_err(failed)?;
    let page = service
        .host
        .audit(&id, query)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::AuditResponse {
        entries: page.items.into_iter().map(Into::into).collect(),
        next_page_token: page.next_token.unwrap_or_default(),
        ..Default::default()
    })
}

pub(super) async fn verify_audit(
    service: &Service,
    request: v1::VerifyAuditRequest,
) -> ServiceResult<v1::VerifyAuditResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    Response::ok(
        service
            .host
            .verify_audit(&id)
            .await
            .map_err(failed_in(&id))?
            .into(),
    )
}
