//! Getting a sandbox.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
};
use sandbar_core::{Need, SessionId, SessionInfo};
use serde_json::Value;

use super::{
    Control,
    errors::{not_found, session_id},
};
use crate::{
    auth::ApiCaller,
    ingress_domain::IngressDomain,
    rest::{ApiResult, Json},
    sandboxes::is_present,
};

pub(super) async fn get(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Extension(domain): Extension<IngressDomain>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let id = session_id(&id)?;
    caller.require(Need::ReadSession(&id))?;
    let session = control.sandbox(&id).await?;
    let note = control.sandboxes.note(&id).await?;
    Ok(Json(
        control.detail((&caller, &domain), &session, note).await?,
    ))
}

impl Control {
    /// Returns the session of a sandbox that is neither destroyed nor failed.
    pub(super) async fn sandbox(&self, id: &SessionId) -> ApiResult<SessionInfo> {
        let session = self.host.get_session(id).await?;
        if is_present(session.state) {
            Ok(session)
        } else {
            Err(not_found(id.as_str()))
        }
    }
}
