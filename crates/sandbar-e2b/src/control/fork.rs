//! Copies of a sandbox.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::{Error, ErrorCode, ForkRequest, Need, SessionId};
use serde_json::{Value, json};

use super::{
    Answer,
    fields::{Fields, bad_request},
    seconds, session_id,
};
use crate::{
    answer::ControlError,
    json::Json,
    keys::Holder,
    reach::Reach,
    sandbox::SandboxNote,
    surface::Surface,
    wake::{end_after, is_asleep},
};

/// The most one request makes.
const MOST: i64 = 20;

pub(super) async fn first_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Extension(reach): Extension<Reach>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    let time = seconds::take(&mut fields, "timeout", 0)?.unwrap_or(Duration::from_secs(15));
    fork(&surface, (&holder, &reach), &id, time.max(Duration::from_millis(1)), fields).await
}

pub(super) async fn second_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Extension(reach): Extension<Reach>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    let time = seconds::take(&mut fields, "timeout", 1)?.unwrap_or(Duration::from_mins(5));
    fork(&surface, (&holder, &reach), &id, time, fields).await
}

/// One result for each copy: the sandbox, or why it could not be made. What runs in the source is in no copy: files are
/// what is copied, of one moment for all of them.
async fn fork(
    surface: &Surface,
    (holder, reach): (&Holder, &Reach),
    id: &str,
    time: Duration,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    let id = session_id(id)?;
    holder.require(Need::Admin)?;
    let count = fields.take::<i64>("count")?.unwrap_or(1);
    if !(1..=MOST).contains(&count) {
        return Err(bad_request(format!("`count` is {count}; ask for 1 to {MOST} copies")));
    }
    let (session, note) = (surface.sandbox(&id).await?, surface.note(&id).await?);
    if is_asleep(session.state) {
        let why = format!("Sandbox \"{id}\" is paused and cannot be forked; resume it first");
        return Err(ControlError::new(StatusCode::CONFLICT, why));
    }
    let count = usize::try_from(count).unwrap_or(1);
    let (copies, refusal) = surface.copy(&id, count).await?;
    let mut results = Vec::new();
    for copy in &copies {
        results.push(match surface.equip(copy, &note, time, reach).await {
            Ok(handle) => json!({ "sandbox": handle }),
            Err(error) => {
                // One that cannot be used is none.
                let _ = surface.host.destroy_session(copy).await;
                json!({ "error": error.to_value() })
            }
        });
    }
    if let Some(refusal) = refusal {
        let error = json!({ "error": ControlError::from(refusal).to_value() });
        results.resize(count, error);
    }
    Ok((StatusCode::CREATED, Json(results.into())))
}

impl Surface {
    /// As many copies as there is room for, up to `count`, and why there are no more.
    async fn copy(&self, id: &SessionId, count: usize) -> Answer<(Vec<SessionId>, Option<Error>)> {
        let mut refusal = None;
        for count in (1..=count).rev() {
            match self.host.fork_session(id, ForkRequest { count, ..ForkRequest::default() }).await {
                Ok(copies) => return Ok((copies.into_iter().map(|copy| copy.id).collect(), refusal)),
                Err(error) if error.code() == ErrorCode::MaxSessionsReached => refusal = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((Vec::new(), refusal))
    }

    /// Makes a copy a sandbox of its own: its time, its note, its secrets.
    async fn equip(&self, id: &SessionId, source: &SandboxNote, time: Duration, reach: &Reach) -> Answer<Value> {
        let end = end_after(time)?;
        let note = SandboxNote {
            timeout: Some(time.as_secs()),
            end_at: Some(end),
            paused: None,
            request: None,
            ..source.clone()
        };
        self.host.set_expiry(id, Some(end), note.on_expiry()).await?;
        if note.network.as_ref().is_some_and(super::network::NetworkConfig::has_rules) {
            self.apply_network(id, note.clone()).await?;
        } else {
            self.keep_note(id, &note).await?;
        }
        if let Some(start) = &note.start {
            self.start_program(id, start).await;
        }
        Ok(self.handle(id, &note, reach).await?)
    }
}
