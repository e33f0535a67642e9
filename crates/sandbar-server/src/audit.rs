//! Audit logs.

use connectrpc::{Response, ServiceResult};
use sandbar_core::SessionId;
use sandbar_proto::v1;

use crate::{
    failure::{failed, failed_in},
    service::Service,
};

impl Service {
    pub(crate) async fn page_of_audit(&self, request: v1::AuditRequest) -> ServiceResult<v1::AuditResponse> {
        let (id, query) = request.unpack().map_err(failed)?;
        let page = self.host.audit(&id, query).await.map_err(failed_in(&id))?;
        Response::ok(v1::AuditResponse {
            entries: page.items.into_iter().map(Into::into).collect(),
            next_page_token: page.next_token.unwrap_or_default(),
            ..Default::default()
        })
    }

    pub(crate) async fn check_audit(&self, id: &str) -> ServiceResult<v1::VerifyAuditResponse> {
        let id = SessionId::new(id).map_err(failed)?;
        Response::ok(self.host.verify_audit(&id).await.map_err(failed_in(&id))?.into())
    }
}
