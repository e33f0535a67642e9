//! What E2B lacks: going back inside a sandbox, without making another one. The paths begin with `/sandbar/`.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::{Aspect, Change, LaterSnapshots, Need, Quiesce, SnapshotInfo, SnapshotName};
use serde_json::{Value, json};

use super::{
    Answer,
    fields::{Fields, bad_request},
    query::Query,
    session_id,
};
use crate::{json::Json, keys::Holder, surface::Surface};

/// `POST /sandbar/sandboxes/{id}/snapshots` takes `{"name": "before"}`, where the name may be left out, and answers 201 with
/// `{"name", "kind", "createdAt", "parent"}`. The snapshot is part of the sandbox and goes with it.
pub(super) async fn take_snapshot(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    holder.require(Need::UseSession(&id))?;
    let name = fields.take::<String>("name")?.map(|name| snapshot_name("name", &name)).transpose()?;
    let taken = surface.host.create_snapshot(&id, name, Quiesce::WhereNeeded).await?;
    Ok((StatusCode::CREATED, Json(snapshot(&taken))))
}

/// `GET /sandbar/sandboxes/{id}/snapshots` answers with a list of them, oldest first; those of turns are among them.
pub(super) async fn list_snapshots(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let id = session_id(&id)?;
    holder.require(Need::ReadSession(&id))?;
    Ok(Json(surface.host.list_snapshots(&id).await?.iter().map(snapshot).collect()))
}

/// `POST /sandbar/sandboxes/{id}/turns` takes nothing: it ends a turn, takes its snapshot, and answers 201 as for a snapshot.
pub(super) async fn complete_turn(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
) -> Answer<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    holder.require(Need::UseSession(&id))?;
    Ok((StatusCode::CREATED, Json(snapshot(&surface.host.turn_complete(&id).await?))))
}

/// `POST /sandbar/sandboxes/{id}/rollback` takes `{"snapshot": "before", "keepLater": false}`: the sandbox is put back to it,
/// what runs in it is ended, and later snapshots are dropped unless they are to be kept. It keeps its id and tokens, and
/// answers 204.
pub(super) async fn roll_back(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<StatusCode> {
    let id = session_id(&id)?;
    holder.require(Need::UseSession(&id))?;
    let name = snapshot_name("snapshot", &fields.require::<String>("snapshot")?)?;
    let keep = fields.take("keepLater")?.unwrap_or(false);
    let later = if keep { LaterSnapshots::Keep } else { LaterSnapshots::Drop };
    let _turn = surface.turns.take(&id).await;
    surface.host.rollback_session(&id, &name, later).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /sandbar/sandboxes/{id}/diff?from=before&to=after` answers with `{"changes": [{"path", "kind", "type", "aspects"}]}`;
/// without `to`, up to now.
pub(super) async fn diff(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    query: Query,
) -> Answer<Json<Value>> {
    let id = session_id(&id)?;
    holder.require(Need::ReadSession(&id))?;
    let from = query.text("from").ok_or_else(|| bad_request("`from` is missing; name a snapshot of the sandbox"))?;
    let from = snapshot_name("from", from)?;
    let to = query.text("to").map(|to| snapshot_name("to", to)).transpose()?;
    let changes = surface.host.diff(&id, &from, to.as_ref()).await?;
    Ok(Json(json!({ "changes": changes.iter().map(change).collect::<Vec<_>>() })))
}

fn snapshot_name(field: &str, text: &str) -> Answer<SnapshotName> {
    SnapshotName::new(text).map_err(|error| {
        bad_request(format!("`{field}`: {} ({})", error.message(), error.hint().unwrap_or("choose another name")))
    })
}

fn snapshot(snapshot: &SnapshotInfo) -> Value {
    json!({
        "name": snapshot.name.as_str(),
        "kind": snapshot.kind.as_str(),
        "createdAt": snapshot.created.to_string(),
        "parent": snapshot.parent.as_ref().map(SnapshotName::as_str),
    })
}

fn change(change: &Change) -> Value {
    let aspects: Vec<&str> = change.aspects.iter().map(Aspect::as_str).collect();
    json!({
        "path": change.path.to_string_lossy(),
        "kind": change.kind.as_str(),
        "type": change.entry.as_str(),
        "aspects": aspects,
    })
}
