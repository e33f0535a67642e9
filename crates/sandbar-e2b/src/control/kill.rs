//! Killing a sandbox.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::Need;

use super::{Control, errors::session_id};
use crate::{auth::ApiCaller, rest::ApiResult};

/// Destroys a sandbox, also one that is paused or whose storage is broken.
pub(super) async fn kill(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    let id = session_id(&id)?;
    caller.require(Need::UseSession(&id))?;
    control.host.destroy_session(&id).await?;
    control.delete_secrets(&id, &[]).await;
    Ok(StatusCode::NO_CONTENT)
}
