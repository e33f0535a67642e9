//! Snapshots, rollback, turns and diff inside a sandbox. E2B has no such calls; the paths begin
//! with `/sandbar/`.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::{Aspect, Change, LaterSnapshots, Need, Quiesce, SnapshotInfo, SnapshotName};
use serde_json::{Value, json};

use super::{Control, errors::session_id};
use crate::{
    auth::ApiCaller,
    rest::{ApiResult, Fields, Json, Query, bad_request},
};

/// `POST /sandbar/sandboxes/{id}/snapshots` takes `{"name": "before"}`, where the name is optional,
/// and answers 201 with `{"name", "kind", "createdAt", "parent"}`. The snapshot is part of the
/// sandbox and is destroyed with it.
pub(super) async fn create_snapshot(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    caller.require(Need::UseSession(&id))?;
    let name = fields
        .take::<String>("name")?
        .map(|name| snapshot_name("name", &name))
        .transpose()?;
    let taken = control
        .host
        .create_snapshot(&id, name, Quiesce::WhereNeeded)
        .await?;
    Ok((StatusCode::CREATED, Json(snapshot(&taken))))
}

/// `GET /sandbar/sandboxes/{id}/snapshots` answers with a list of them, oldest first, including
/// those of turns.
pub(super) async fn list_snapshots(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let id = session_id(&id)?;
    caller.require(Need::ReadSession(&id))?;
    Ok(Json(
        control
            .host
            .list_snapshots(&id)
            .await?
            .iter()
            .map(snapshot)
            .collect(),
    ))
}

/// `POST /sandbar/sandboxes/{id}/turns` takes no body: it completes a turn, takes its snapshot, and
/// answers 201 as for a snapshot.
pub(super) async fn complete_turn(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    caller.require(Need::UseSession(&id))?;
    Ok((
        StatusCode::CREATED,
        Json(snapshot(&control.host.turn_complete(&id).await?)),
    ))
}

/// `POST /sandbar/sandboxes/{id}/rollback` takes `{"snapshot": "before", "keepLater": false}`:
/// files are restored from the snapshot, processes are ended, and later snapshots are deleted
/// unless `keepLater` is set. The sandbox keeps its id and tokens. Answers 204.
pub(super) async fn rollback(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<StatusCode> {
    let id = session_id(&id)?;
    caller.require(Need::UseSession(&id))?;
    let name = snapshot_name("snapshot", &fields.require::<String>("snapshot")?)?;
    let keep = fields.take("keepLater")?.unwrap_or(false);
    let later = if keep {
        LaterSnapshots::Keep
    } else {
        LaterSnapshots::Drop
    };
    let _lock = control.sandboxes.lock(&id).await;
    control.host.rollback_session(&id, &name, later).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /sandbar/sandboxes/{id}/diff?from=before&to=after` answers with `{"changes": [{"path",
/// "kind", "type", "aspects"}]}`; without `to`, up to the current state.
pub(super) async fn diff(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    query: Query,
) -> ApiResult<Json<Value>> {
    let id = session_id(&id)?;
    caller.require(Need::ReadSession(&id))?;
    let from = query
        .text("from")
        .ok_or_else(|| bad_request("`from` is missing; name a snapshot of the sandbox"))?;
    let from = snapshot_name("from", from)?;
    let to = query
        .text("to")
        .map(|to| snapshot_name("to", to))
        .transpose()?;
    let changes = control.host.diff(&id, &from, to.as_ref()).await?;
    Ok(Json(
        json!({ "changes": changes.iter().map(change).collect::<Vec<_>>() }),
    ))
}

fn snapshot_name(field: &str, text: &str) -> ApiResult<SnapshotName> {
    SnapshotName::new(text).map_err(|error| {
        bad_request(format!(
            "`{field}`: {} ({})",
            error.message(),
            error.hint().unwrap_or("choose another name")
        ))
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
