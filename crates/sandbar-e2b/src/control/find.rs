//! Finding a sandbox.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
};
use sandbar_core::{Need, SessionId, SessionInfo};
use serde_json::Value;

use super::{Answer, not_found, session_id};
use crate::{json::Json, keys::Holder, reach::Reach, surface::Surface, wake::is_there};

pub(super) async fn find(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Extension(reach): Extension<Reach>,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let id = session_id(&id)?;
    holder.require(Need::ReadSession(&id))?;
    let session = surface.sandbox(&id).await?;
    let note = surface.note(&id).await?;
    Ok(Json(surface.detail((&holder, &reach), &session, note).await?))
}

impl Surface {
    /// A sandbox that is there.
    pub(super) async fn sandbox(&self, id: &SessionId) -> Answer<SessionInfo> {
        let session = self.host.get_session(id).await?;
        if is_there(session.state) { Ok(session) } else { Err(not_found(id.as_str())) }
    }
}
