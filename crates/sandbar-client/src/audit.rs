//! Audit log calls.

use sandbar_core::{AuditEntry, AuditQuery, AuditVerdict, Page, Result, SessionId};
use sandbar_proto::v1;

use crate::Client;

impl Client {
    /// Returns one page of the audit log of a session.
    pub async fn audit(&self, id: &SessionId, query: &AuditQuery) -> Result<Page<AuditEntry>> {
        let request = v1::AuditRequest::new(id, query);
        let answer = self
            .repeat(|| self.rpc.audit(request.clone()))
            .await?
            .into_owned();
        let items = answer
            .entries
            .into_iter()
            .map(TryInto::try_into)
            .collect::<Result<_>>()?;
        let next_token = if answer.next_page_token.is_empty() {
            None
        } else {
            Some(answer.next_page_token)
        };
        Ok(Page { items, next_token })
    }

    /// Verifies the hash chain of a session's audit log.
    pub async fn verify_audit(&self, id: &SessionId) -> Result<AuditVerdict> {
        let request = v1::VerifyAuditRequest {
            session_id: id.as_str().to_owned(),
            ..Default::default()
        };
        Ok(self
            .repeat(|| self.rpc.verify_audit(request.clone()))
            .await?
            .into_owned()
            .into())
    }
}
