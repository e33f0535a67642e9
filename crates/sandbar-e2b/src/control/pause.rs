//! Pausing a sandbox.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use jiff::Timestamp;
use sandbar_core::{ErrorCode, Keep, Need};

use super::{Control, errors::session_id};
use crate::{
    auth::ApiCaller,
    rest::{ApiError, ApiResult, Fields},
    sandboxes::{PausedState, SandboxNote, is_asleep},
};

/// Pauses a sandbox; `memory: false` keeps only its files. Status 409 is reserved for a sandbox
/// that is already paused, because SDKs take it for that.
pub(super) async fn pause(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<StatusCode> {
    let id = session_id(&id)?;
    caller.require(Need::UseSession(&id))?;
    let memory = fields.take("memory")?.unwrap_or(true);
    let _lock = control.sandboxes.lock(&id).await;
    let session = control.sandbox(&id).await?;
    if is_asleep(session.state) {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            format!("Sandbox \"{id}\" is already paused"),
        ));
    }
    let before = control.sandboxes.note(&id).await?;
    let (keep, kept) = if memory {
        (Keep::Memory, PausedState::Memory)
    } else {
        (Keep::Files, PausedState::Files)
    };
    // A paused sandbox does not expire, unless its end is that of everything in it: only an admin
    // may postpone that.
    let keeps_end = !before.auto_pause && !caller.grant.may(Need::Admin);
    let note = SandboxNote {
        paused: Some(kept),
        end_at: if keeps_end {
            before.end_at
        } else {
            Some(Timestamp::now())
        },
        ..before.clone()
    };
    // Before the pause: otherwise the sandbox could expire meanwhile, or a crash would leave a note
    // that says its processes are lost.
    if !keeps_end {
        control.host.set_expiry(&id, None, None).await?;
    }
    control.sandboxes.put_note(&id, &note).await?;
    if let Err(error) = control.host.pause_session_keeping(&id, keep).await {
        if error.code() == ErrorCode::SessionPaused {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                format!("Sandbox \"{id}\" is already paused"),
            ));
        }
        control.sandboxes.put_note(&id, &before).await?;
        control.host.set_expiry(&id, session.expires, None).await?;
        // Not 409, see above.
        let busy = matches!(
            error.code(),
            ErrorCode::ToolsInFlight | ErrorCode::InvalidState
        );
        let error = ApiError::from(error);
        return Err(if busy {
            error.with_status(StatusCode::SERVICE_UNAVAILABLE)
        } else {
            error
        });
    }
    Ok(StatusCode::NO_CONTENT)
}
