//! Calls for snapshots from which sandboxes are created.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use sandbar_core::Need;
use serde_json::{Value, json};

use super::{Control, errors::session_id};
use crate::{
    auth::ApiCaller,
    protocol::NEXT_TOKEN,
    rest::{ApiResult, Fields, Json, Query, bad_request, decoded},
    sandboxes::{SandboxNote, Snapshot, SnapshotNote, SnapshotRef},
};

const MAX_PAGE_SIZE: u64 = 100;

/// Tag of a snapshot that was created without one.
const DEFAULT_TAG: &str = "default";
const MAX_SHOWN_NAME: usize = 128;

/// `POST /sandboxes/{id}/snapshots`: saves the files of a sandbox. Processes are not part of a
/// snapshot.
pub(super) async fn create(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    caller.require(Need::Admin)?;
    let named = match fields
        .take::<String>("name")?
        .filter(|name| !name.is_empty())
    {
        None => None,
        Some(name) => Some(SnapshotRef::parse(&name).ok_or_else(|| {
            let shown: String = name.chars().take(MAX_SHOWN_NAME).collect();
            bad_request(format!(
                "`name` is `{}`; use letters, digits, `-`, `_` and `.`, and a tag after `:`",
                shown.escape_debug()
            ))
        })?),
    };
    control.sandbox(&id).await?;
    let note = SnapshotNote {
        tag: named
            .as_ref()
            .and_then(|named| named.tag.clone())
            .unwrap_or_else(|| DEFAULT_TAG.to_owned()),
        name: named.map(|named| named.name),
        // Without the network settings: injected header values belong to this sandbox only.
        sandbox: SandboxNote {
            network: None,
            request: None,
            ..control.sandboxes.note(&id).await?
        },
        snapshot_of: id.clone(),
    };
    let snapshot = control.sandboxes.save_snapshot(&id, note).await?;
    Ok((StatusCode::CREATED, Json(described(&snapshot))))
}

/// `GET /snapshots`: newest first, a page at a time, optionally filtered by sandbox or name.
pub(super) async fn list(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    query: Query,
) -> ApiResult<(HeaderMap, Json<Value>)> {
    caller.require(Need::Read)?;
    let limit = usize::try_from(
        query
            .number("limit", 1, MAX_PAGE_SIZE)?
            .unwrap_or(MAX_PAGE_SIZE),
    )
    .unwrap_or(usize::MAX);
    let mut snapshots = control.sandboxes.snapshots().await?;
    if let Some(sandbox) = query.text("sandboxID") {
        snapshots.retain(|snapshot| snapshot.note.snapshot_of.as_str() == sandbox);
    }
    if let Some(name) = query.text("name") {
        let named = SnapshotRef::parse(name);
        snapshots.retain(|snapshot| named.as_ref().is_some_and(|named| named.matches(snapshot)));
    }
    let token_of =
        |snapshot: &Snapshot| format!("{}.{}", snapshot.created.as_nanosecond(), snapshot.base);
    if let Some(token) = query.text("nextToken") {
        let last = snapshots
            .iter()
            .position(|snapshot| token_of(snapshot) == token);
        let last = last.ok_or_else(|| {
            bad_request("`nextToken` is not valid; send `x-next-token` of the previous page")
        })?;
        snapshots.drain(..=last);
    }
    let more = snapshots.len() > limit;
    snapshots.truncate(limit);
    let mut headers = HeaderMap::new();
    if more
        && let Some(next) = snapshots
            .last()
            .and_then(|last| HeaderValue::from_str(&token_of(last)).ok())
    {
        headers.insert(NEXT_TOKEN, next);
    }
    Ok((headers, Json(snapshots.iter().map(described).collect())))
}

/// Middleware for `DELETE /templates/{id}` of a snapshot; other requests go on to the routes. Not a
/// route, because SDKs may send a namespace with an unencoded slash in the id.
pub(super) async fn delete(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    request: Request,
    next: Next,
) -> Response {
    let name = request
        .uri()
        .path()
        .strip_prefix("/templates/")
        .filter(|_| request.method() == Method::DELETE);
    let Some(named) = name.and_then(|name| SnapshotRef::parse(&decoded(name))) else {
        return next.run(request).await;
    };
    match control.delete_snapshots(&caller, &named).await {
        Ok(true) => StatusCode::NO_CONTENT.into_response(),
        Ok(false) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Returns the id by which SDKs refer to a snapshot.
fn id_of(snapshot: &Snapshot) -> String {
    let name = snapshot.note.name.as_deref();
    format!(
        "{}:{}",
        name.unwrap_or(snapshot.base.as_str()),
        snapshot.note.tag
    )
}

fn described(snapshot: &Snapshot) -> Value {
    let names: Vec<String> = snapshot
        .note
        .name
        .iter()
        .map(|name| format!("{name}:{}", snapshot.note.tag))
        .collect();
    json!({ "snapshotID": id_of(snapshot), "names": names })
}

impl Control {
    /// Deletes the snapshots of a name; returns whether there were any.
    async fn delete_snapshots(&self, caller: &ApiCaller, name: &SnapshotRef) -> ApiResult<bool> {
        let found = self.sandboxes.find_snapshots(name).await?;
        if !found.is_empty() {
            caller.require(Need::Admin)?;
        }
        for snapshot in &found {
            self.host.delete_base(&snapshot.base).await?;
        }
        Ok(!found.is_empty())
    }
}
