//! Connecting to a sandbox, which wakes it.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::{Need, SessionId, SessionInfo};
use serde_json::Value;

use super::{Control, errors::session_id};
use crate::{
    auth::ApiCaller,
    ingress_domain::IngressDomain,
    rest::{ApiError, ApiResult, Fields, Json, seconds},
    sandboxes::{Extended, SandboxNote, Waking, end_after, is_asleep},
};

/// Lifetime after `resume` without a timeout.
const DEFAULT_RESUME_TIMEOUT: Duration = Duration::from_secs(15);
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_mins(5);

pub(super) async fn first_version(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Extension(domain): Extension<IngressDomain>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    caller.require(Need::UseSession(&id))?;
    let time = match seconds::take(&mut fields, "timeout", 0)? {
        Some(time) => time,
        None => fields.require("timeout").map(Duration::from_secs)?,
    };
    control
        .connect(
            &id,
            Lifetime::of(&caller, time),
            waking(&mut fields)?,
            &domain,
        )
        .await
}

pub(super) async fn second_version(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Extension(domain): Extension<IngressDomain>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    caller.require(Need::UseSession(&id))?;
    let time = seconds::take(&mut fields, "timeout", 1)?.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
    control
        .connect(
            &id,
            Lifetime::of(&caller, time),
            waking(&mut fields)?,
            &domain,
        )
        .await
}

/// Lifetime a caller requests.
#[derive(Clone, Copy, Debug)]
struct Lifetime {
    time: Duration,
    /// Only an admin may extend a lifetime: a key for a single session must not extend its own.
    is_admin: bool,
}

impl Lifetime {
    fn of(caller: &ApiCaller, time: Duration) -> Self {
        Self {
            time,
            is_admin: caller.grant.may(Need::Admin),
        }
    }

    /// Returns the lifetime after waking. Without admin scope it is at most what a request to a
    /// port would give.
    fn after_waking(self, session: &SessionInfo, note: &SandboxNote) -> Duration {
        if self.is_admin {
            self.time
        } else {
            self.time.min(note.lifetime_after_request(session))
        }
    }
}

/// Resumes a paused sandbox; the call of old SDKs.
pub(super) async fn resume(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Extension(domain): Extension<IngressDomain>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    caller.require(Need::UseSession(&id))?;
    let time = seconds::take(&mut fields, "timeout", 0)?.unwrap_or(DEFAULT_RESUME_TIMEOUT);
    let (auto_pause, waking) = (fields.take::<bool>("autoPause")?, waking(&mut fields)?);
    let _lock = control.sandboxes.lock(&id).await;
    let session = control.sandbox(&id).await?;
    if !is_asleep(session.state) {
        let why = format!("Sandbox \"{id}\" is already running (connect to it instead)");
        return Err(ApiError::new(StatusCode::CONFLICT, why));
    }
    let mut note = control.sandboxes.note(&id).await?;
    // A sandbox that pauses at the end of its lifetime outlives it.
    if auto_pause.is_some_and(|auto_pause| auto_pause != note.auto_pause) {
        caller.require(Need::Admin)?;
    }
    note.auto_pause = auto_pause.unwrap_or(note.auto_pause);
    let handle = control.handle(&id, &note, &domain).await?;
    let time = Lifetime::of(&caller, time).after_waking(&session, &note);
    control.sandboxes.wake(&session, note, time, waking).await?;
    Ok((StatusCode::CREATED, Json(handle)))
}

/// Reads `memory`: `false` ends the processes of the sandbox.
fn waking(fields: &mut Fields) -> ApiResult<Waking> {
    let keep = fields.take("memory")?.unwrap_or(true);
    Ok(if keep {
        Waking::Restore
    } else {
        Waking::Reboot
    })
}

impl Control {
    /// Answers 200 for a running sandbox, whose lifetime is extended if it is shorter and the
    /// caller may do so; 201 for a sandbox that was woken.
    async fn connect(
        &self,
        id: &SessionId,
        lifetime: Lifetime,
        waking: Waking,
        domain: &IngressDomain,
    ) -> ApiResult<(StatusCode, Json<Value>)> {
        let _lock = self.sandboxes.lock(id).await;
        let (session, note) = (self.sandbox(id).await?, self.sandboxes.note(id).await?);
        let handle = self.handle(id, &note, domain).await?;
        let time = lifetime.after_waking(&session, &note);
        if is_asleep(session.state) {
            self.sandboxes.wake(&session, note, time, waking).await?;
            return Ok((StatusCode::CREATED, Json(handle)));
        }
        let end = end_after(lifetime.time)?;
        // A sandbox without expiry needs no extension.
        if lifetime.is_admin
            && session.expires.is_some_and(|expires| expires < end)
            && self.sandboxes.set_end(id, note.clone(), end).await? == Extended::FellAsleep
        {
            self.sandboxes
                .wake(&self.sandbox(id).await?, note, time, waking)
                .await?;
            return Ok((StatusCode::CREATED, Json(handle)));
        }
        Ok((StatusCode::OK, Json(handle)))
    }
}
