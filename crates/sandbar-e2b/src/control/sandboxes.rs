//! Making, finding and killing sandboxes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::{BaseName, Need, NetworkPolicy, Result, SessionId, SessionInfo, SessionSpec, SessionState};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Answer;
use crate::{
    json::Json,
    keys::{Holder, envd_token},
    sandbox::SandboxNote,
    surface::Surface,
};

/// What envd of this version can do; SDKs ask for no more than it says.
pub(super) const ENVD_VERSION: &str = "0.6.4";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSandbox {
    #[serde(rename = "templateID")]
    template: String,
    timeout: Option<u64>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    env_vars: BTreeMap<String, String>,
}

pub(super) async fn create(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Json(request): Json<NewSandbox>,
) -> Answer<(StatusCode, Json<Value>)> {
    holder.require(Need::Admin)?;
    let spec = SessionSpec {
        id: Some(sandbox_id()?),
        labels: request.metadata,
        env: request.env_vars.clone(),
        time_to_live: Some(Duration::from_secs(request.timeout.unwrap_or(300))),
        network: Some(NetworkPolicy { allow_public_ingress: true, required: false, ..NetworkPolicy::default() }),
        ..SessionSpec::new(BaseName::new("host")?)
    };
    let session = surface.host.create_session(spec).await?;
    let note = SandboxNote { template: request.template, env: request.env_vars, ..SandboxNote::default() };
    surface.keep_note(&session.id, &note).await?;
    Ok((StatusCode::CREATED, Json(surface.handle(&session.id, &note).await?)))
}

pub(super) async fn find(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let id = SessionId::new(id)?;
    holder.require(Need::ReadSession(&id))?;
    let (session, note) = (surface.host.get_session(&id).await?, surface.note(&id).await?);
    let mut detail = surface.handle(&id, &note).await?;
    if let (Some(detail), Value::Object(more)) = (detail.as_object_mut(), details(&session)) {
        detail.extend(more);
    }
    Ok(Json(detail))
}

fn details(session: &SessionInfo) -> Value {
    let state = if session.state == SessionState::Active { "running" } else { "paused" };
    json!({
        "state": state,
        "metadata": session.labels,
        "startedAt": session.created.to_string(),
        "endAt": session.expires.unwrap_or(session.created).to_string(),
        "cpuCount": 1,
        "memoryMB": 512,
        "diskSizeMB": 512,
    })
}

pub(super) async fn kill(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let id = SessionId::new(id)?;
    holder.require(Need::UseSession(&id))?;
    surface.host.destroy_session(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A name that fits into a host name.
fn sandbox_id() -> Result<SessionId> {
    SessionId::new(SessionId::random().as_str().to_lowercase().replace(['.', '_', '-'], ""))
}

impl Surface {
    /// What an SDK needs to work with a sandbox.
    pub(super) async fn handle(&self, id: &SessionId, note: &SandboxNote) -> Result<Value> {
        let access = self.host.port_access(id).await?;
        let mut handle = json!({
            "templateID": note.template,
            "sandboxID": id.as_str(),
            "clientID": "sandbar",
            "envdVersion": ENVD_VERSION,
            "trafficAccessToken": access.token.reveal(),
        });
        if note.secure {
            handle["envdAccessToken"] = envd_token(access.token.reveal()).into();
        }
        Ok(handle)
    }
}
