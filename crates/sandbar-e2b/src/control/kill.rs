//! Killing a sandbox.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::Need;

use super::{Answer, session_id};
use crate::{keys::Holder, surface::Surface};

/// Also one that is paused, and one whose storage is broken.
pub(super) async fn kill(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let id = session_id(&id)?;
    holder.require(Need::UseSession(&id))?;
    surface.host.destroy_session(&id).await?;
    surface.forget_secrets(&id, &[]).await;
    Ok(StatusCode::NO_CONTENT)
}
