//! Putting a sandbox to sleep.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use jiff::Timestamp;
use sandbar_core::{ErrorCode, Keep, Need};

use super::{Answer, fields::Fields, session_id};
use crate::{
    answer::ControlError,
    keys::Holder,
    sandbox::{Kept, SandboxNote},
    surface::Surface,
    wake::is_asleep,
};

/// `memory: false` keeps the files only. 409 says that it is paused already, and nothing else.
pub(super) async fn pause(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<StatusCode> {
    let id = session_id(&id)?;
    holder.require(Need::UseSession(&id))?;
    let memory = fields.take("memory")?.unwrap_or(true);
    let _turn = surface.turns.take(&id).await;
    let session = surface.sandbox(&id).await?;
    if is_asleep(session.state) {
        return Err(ControlError::new(StatusCode::CONFLICT, format!("Sandbox \"{id}\" is already paused")));
    }
    let before = surface.note(&id).await?;
    let (keep, kept) = if memory { (Keep::Memory, Kept::Memory) } else { (Keep::Files, Kept::Files) };
    let note = SandboxNote { paused: Some(kept), end_at: Some(Timestamp::now()), ..before.clone() };
    // Before it sleeps: nothing is deleted because its time is up meanwhile, nor is its memory taken for lost.
    surface.host.set_expiry(&id, None, None).await?;
    surface.keep_note(&id, &note).await?;
    if let Err(error) = surface.host.pause_session_keeping(&id, keep).await {
        if error.code() == ErrorCode::SessionPaused {
            return Err(ControlError::new(StatusCode::CONFLICT, format!("Sandbox \"{id}\" is already paused")));
        }
        surface.keep_note(&id, &before).await?;
        surface.host.set_expiry(&id, session.expires, None).await?;
        // SDKs take 409 for a sandbox that is paused.
        let busy = matches!(error.code(), ErrorCode::ToolsInFlight | ErrorCode::InvalidState);
        let error = ControlError::from(error);
        return Err(if busy { error.with_status(StatusCode::SERVICE_UNAVAILABLE) } else { error });
    }
    Ok(StatusCode::NO_CONTENT)
}
