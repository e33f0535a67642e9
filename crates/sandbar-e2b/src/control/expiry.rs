//! How long a sandbox has.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use jiff::Timestamp;
use sandbar_core::{Need, Result, SessionId, SessionInfo};

use super::{
    Answer,
    fields::{Fields, bad_request},
    seconds, session_id,
};
use crate::{
    answer::ControlError,
    keys::Holder,
    sandbox::SandboxNote,
    surface::Surface,
    wake::{end_after, is_asleep},
};

/// The most one refresh gives.
const LONGEST_REFRESH: Duration = Duration::from_hours(1);
const DEFAULT_REFRESH: Duration = Duration::from_secs(15);

/// So long from now, more or less than before. A time of zero is up at once. Admin-only, as in the native API: a session
/// must not be able to extend its own lifetime.
pub(super) async fn set(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<StatusCode> {
    let id = session_id(&id)?;
    holder.require(Need::Admin)?;
    let time = match seconds::take(&mut fields, "timeout", 0)? {
        Some(time) => time,
        None => fields.require("timeout").map(Duration::from_secs)?,
    };
    let _turn = surface.turns.take(&id).await;
    surface.running(&id).await?;
    if surface.set_end(&id, surface.note(&id).await?, end_after(time)?).await? == Extended::FellAsleep {
        return Err(has_no_time(&id));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// At least so long from now. Admin-only as well.
pub(super) async fn refresh(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<StatusCode> {
    let id = session_id(&id)?;
    holder.require(Need::Admin)?;
    let time = seconds::take(&mut fields, "duration", 0)?.unwrap_or(DEFAULT_REFRESH);
    if time > LONGEST_REFRESH {
        return Err(bad_request("`duration` is longer than an hour; use at most 3600, or set the timeout"));
    }
    let _turn = surface.turns.take(&id).await;
    let (session, end) = (surface.running(&id).await?, end_after(time)?);
    if session.expires.is_some_and(|expires| expires < end)
        && surface.set_end(&id, surface.note(&id).await?, end).await? == Extended::FellAsleep
    {
        return Err(has_no_time(&id));
    }
    Ok(StatusCode::NO_CONTENT)
}

impl Surface {
    /// A sandbox that is not asleep. E2B knows no others here.
    async fn running(&self, id: &SessionId) -> Answer<SessionInfo> {
        let session = self.sandbox(id).await?;
        if is_asleep(session.state) { Err(has_no_time(id)) } else { Ok(session) }
    }

    /// Says when the time of a sandbox is up. The caller has its turn.
    pub(crate) async fn set_end(&self, id: &SessionId, before: SandboxNote, end: Timestamp) -> Result<Extended> {
        let note = SandboxNote { end_at: Some(end), ..before.clone() };
        // First, since the sandbox may be gone right after the other.
        self.keep_note(id, &note).await?;
        let session = self.host.set_expiry(id, Some(end), note.on_expiry()).await?;
        if !is_asleep(session.state) {
            return Ok(Extended::Runs);
        }
        // Asleep, it has none.
        self.host.set_expiry(id, None, None).await?;
        self.keep_note(id, &before).await?;
        Ok(Extended::FellAsleep)
    }
}

/// What became of a sandbox that was to get another end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    Runs,
    /// Its time was up just before: it is paused.
    FellAsleep,
}

fn has_no_time(id: &SessionId) -> ControlError {
    let why = format!("Sandbox \"{id}\" is paused and has no time to change (resume it with `Sandbox.connect`)");
    ControlError::new(StatusCode::NOT_FOUND, why)
}
