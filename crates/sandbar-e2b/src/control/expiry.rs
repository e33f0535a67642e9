//! Changing when a sandbox expires.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::{Need, SessionId, SessionInfo};

use super::{Control, errors::session_id};
use crate::{
    auth::ApiCaller,
    rest::{ApiError, ApiResult, Fields, bad_request, seconds},
    sandboxes::{Extended, end_after, is_asleep},
};

/// Limit of one refresh.
const MAX_REFRESH: Duration = Duration::from_hours(1);
const DEFAULT_REFRESH: Duration = Duration::from_secs(15);

/// Sets the lifetime from now, longer or shorter than before; zero expires at once. Admin-only, as
/// in the native API: a session must not be able to extend its own lifetime.
pub(super) async fn set(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<StatusCode> {
    let id = session_id(&id)?;
    caller.require(Need::Admin)?;
    let time = match seconds::take(&mut fields, "timeout", 0)? {
        Some(time) => time,
        None => fields.require("timeout").map(Duration::from_secs)?,
    };
    let _lock = control.sandboxes.lock(&id).await;
    control.require_running(&id).await?;
    if control
        .sandboxes
        .set_end(&id, control.sandboxes.note(&id).await?, end_after(time)?)
        .await?
        == Extended::FellAsleep
    {
        return Err(no_lifetime(&id));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Extends the lifetime if it is shorter than requested. Admin-only as well.
pub(super) async fn refresh(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<StatusCode> {
    let id = session_id(&id)?;
    caller.require(Need::Admin)?;
    let time = seconds::take(&mut fields, "duration", 0)?.unwrap_or(DEFAULT_REFRESH);
    if time > MAX_REFRESH {
        return Err(bad_request(
            "`duration` is longer than an hour; use at most 3600, or set the timeout",
        ));
    }
    let _lock = control.sandboxes.lock(&id).await;
    let (session, end) = (control.require_running(&id).await?, end_after(time)?);
    if session.expires.is_some_and(|expires| expires < end)
        && control
            .sandboxes
            .set_end(&id, control.sandboxes.note(&id).await?, end)
            .await?
            == Extended::FellAsleep
    {
        return Err(no_lifetime(&id));
    }
    Ok(StatusCode::NO_CONTENT)
}

impl Control {
    /// Returns a sandbox unless it is paused: for E2B a paused one has no lifetime.
    async fn require_running(&self, id: &SessionId) -> ApiResult<SessionInfo> {
        let session = self.sandbox(id).await?;
        if is_asleep(session.state) {
            Err(no_lifetime(id))
        } else {
            Ok(session)
        }
    }
}

fn no_lifetime(id: &SessionId) -> ApiError {
    let why = format!(
        "Sandbox \"{id}\" is paused and has no time to change (resume it with `Sandbox.connect`)"
    );
    ApiError::new(StatusCode::NOT_FOUND, why)
}
