//! Coming back to a sandbox, which is woken for it.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::{Need, SessionId};
use serde_json::Value;

use super::{Answer, expiry::Extended, fields::Fields, seconds, session_id};
use crate::{
    answer::ControlError,
    json::Json,
    keys::Holder,
    reach::Reach,
    sandbox::SandboxNote,
    surface::Surface,
    wake::{Waking, end_after, is_asleep},
};

/// What a sandbox has that is resumed without saying how long.
const DEFAULT_OF_RESUME: Duration = Duration::from_secs(15);
const DEFAULT: Duration = Duration::from_mins(5);

pub(super) async fn first_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Extension(reach): Extension<Reach>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    holder.require(Need::UseSession(&id))?;
    let time = match seconds::take(&mut fields, "timeout", 0)? {
        Some(time) => time,
        None => fields.require("timeout").map(Duration::from_secs)?,
    };
    surface.connect(&id, Lifetime::of(&holder, time), waking(&mut fields)?, &reach).await
}

pub(super) async fn second_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Extension(reach): Extension<Reach>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    holder.require(Need::UseSession(&id))?;
    let time = seconds::take(&mut fields, "timeout", 1)?.unwrap_or(DEFAULT);
    surface.connect(&id, Lifetime::of(&holder, time), waking(&mut fields)?, &reach).await
}

/// Time a caller asks for.
#[derive(Clone, Copy, Debug)]
struct Lifetime {
    time: Duration,
    /// The key may extend lifetimes: one that opens a single session may not extend its own.
    is_admin: bool,
}

impl Lifetime {
    fn of(holder: &Holder, time: Duration) -> Self {
        Self { time, is_admin: holder.grant.may(Need::Admin) }
    }

    /// The time of a sandbox that is woken: without an admin's key not more than a request to a port would give it.
    fn after_waking(self, note: &SandboxNote) -> Duration {
        if self.is_admin { self.time } else { self.time.min(note.time_after_a_request()) }
    }
}

/// The call of old SDKs: only for one that is paused.
pub(super) async fn resume(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Extension(reach): Extension<Reach>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    holder.require(Need::UseSession(&id))?;
    let time = seconds::take(&mut fields, "timeout", 0)?.unwrap_or(DEFAULT_OF_RESUME);
    let (auto_pause, waking) = (fields.take::<bool>("autoPause")?, waking(&mut fields)?);
    let _turn = surface.turns.take(&id).await;
    let session = surface.sandbox(&id).await?;
    if !is_asleep(session.state) {
        let why = format!("Sandbox \"{id}\" is already running (connect to it instead)");
        return Err(ControlError::new(StatusCode::CONFLICT, why));
    }
    let mut note = surface.note(&id).await?;
    note.auto_pause = auto_pause.unwrap_or(note.auto_pause);
    let handle = surface.handle(&id, &note, &reach).await?;
    let time = Lifetime::of(&holder, time).after_waking(&note);
    surface.wake(&session, note, time, waking).await?;
    Ok((StatusCode::CREATED, Json(handle)))
}

/// `memory: false` leaves behind what ran in the sandbox.
fn waking(fields: &mut Fields) -> Answer<Waking> {
    let keep = fields.take("memory")?.unwrap_or(true);
    Ok(if keep { Waking::Restore } else { Waking::Reboot })
}

impl Surface {
    /// 200 for one that runs, whose time is made longer where it is shorter and the caller may; 201 for one that was woken.
    async fn connect(
        &self,
        id: &SessionId,
        lifetime: Lifetime,
        waking: Waking,
        reach: &Reach,
    ) -> Answer<(StatusCode, Json<Value>)> {
        let _turn = self.turns.take(id).await;
        let (session, note) = (self.sandbox(id).await?, self.note(id).await?);
        let handle = self.handle(id, &note, reach).await?;
        let time = lifetime.after_waking(&note);
        if is_asleep(session.state) {
            self.wake(&session, note, time, waking).await?;
            return Ok((StatusCode::CREATED, Json(handle)));
        }
        let end = end_after(lifetime.time)?;
        // One without an end has all the time there is.
        if lifetime.is_admin
            && session.expires.is_some_and(|expires| expires < end)
            && self.set_end(id, note.clone(), end).await? == Extended::FellAsleep
        {
            self.wake(&self.sandbox(id).await?, note, time, waking).await?;
            return Ok((StatusCode::CREATED, Json(handle)));
        }
        Ok((StatusCode::OK, Json(handle)))
    }
}
