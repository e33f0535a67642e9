//! Snapshots: sandboxes as they were, to make others from. They outlive the sandbox.
//!
//! A snapshot is a saved base with a note. It has an id, and a name where it was given one; a later snapshot of the same
//! name and tag takes its place.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use sandbar_core::{BaseName, Need, Result, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Answer,
    fields::{Fields, bad_request},
    query::{Query, decoded},
    session_id,
    template::Template,
};
use crate::{json::Json, keys::Holder, sandbox::SandboxNote, surface::Surface};

const NEXT: HeaderName = HeaderName::from_static("x-next-token");
const PAGE: u64 = 100;

/// The tag of a snapshot nobody gave another one.
const DEFAULT_TAG: &str = "default";
const LONGEST_NAME: usize = 128;

/// What the note of a base says that is a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotNote {
    /// The sandbox it was taken of.
    snapshot_of: SessionId,
    name: Option<String>,
    tag: String,
    /// What E2B knew of the sandbox.
    sandbox: SandboxNote,
}

/// A snapshot there is.
#[derive(Clone, Debug)]
struct Snapshot {
    base: BaseName,
    created: Timestamp,
    note: SnapshotNote,
}

/// A name as somebody wrote it: `name`, `name:tag`, `namespace/name:tag`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    name: String,
    tag: Option<String>,
}

impl Named {
    /// `None` when it can be the name of nothing. Namespaces are of E2B's accounts, of which there is one here.
    fn parse(text: &str) -> Option<Self> {
        let plain = text.trim().rsplit('/').next()?.to_lowercase();
        let (name, tag) = match plain.split_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (plain.as_str(), None),
        };
        let fits = |word: &str| {
            let letters = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
            !word.is_empty() && word.len() <= LONGEST_NAME && letters
        };
        (fits(name) && tag.is_none_or(fits)).then(|| Self { name: name.to_owned(), tag: tag.map(str::to_owned) })
    }

    fn is(&self, snapshot: &Snapshot) -> bool {
        let is_named = snapshot.base.as_str() == self.name || snapshot.note.name.as_deref() == Some(&self.name);
        is_named && self.tag.as_ref().is_none_or(|tag| *tag == snapshot.note.tag)
    }
}

impl Snapshot {
    /// What SDKs know it by.
    fn id(&self) -> String {
        format!("{}:{}", self.note.name.as_deref().unwrap_or(self.base.as_str()), self.note.tag)
    }

    fn told(&self) -> Value {
        let names: Vec<String> = self.note.name.iter().map(|name| format!("{name}:{}", self.note.tag)).collect();
        json!({ "snapshotID": self.id(), "names": names })
    }
}

/// `POST /sandboxes/{id}/snapshots`: the files of a sandbox as they are now. What runs in it is in no snapshot.
pub(super) async fn create(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    let id = session_id(&id)?;
    holder.require(Need::Admin)?;
    let named = match fields.take::<String>("name")?.filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => Some(Named::parse(&name).ok_or_else(|| {
            let shown: String = name.chars().take(LONGEST_NAME).collect();
            bad_request(format!(
                "`name` is `{}`; use letters, digits, `-`, `_` and `.`, and a tag after `:`",
                shown.escape_debug()
            ))
        })?),
    };
    surface.sandbox(&id).await?;
    let note = SnapshotNote {
        tag: named.as_ref().and_then(|named| named.tag.clone()).unwrap_or_else(|| DEFAULT_TAG.to_owned()),
        name: named.map(|named| named.name),
        // Without what is put into the headers of its requests: that is for the sandbox alone.
        sandbox: SandboxNote { network: None, request: None, ..surface.note(&id).await? },
        snapshot_of: id.clone(),
    };
    let snapshot = surface.save(&id, note).await?;
    Ok((StatusCode::CREATED, Json(snapshot.told())))
}

/// `GET /snapshots`: newest first, a page at a time; those of a sandbox or of a name, where it is asked for.
pub(super) async fn list(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    query: Query,
) -> Answer<(HeaderMap, Json<Value>)> {
    holder.require(Need::Read)?;
    let limit = usize::try_from(query.number("limit", 1, PAGE)?.unwrap_or(PAGE)).unwrap_or(usize::MAX);
    let mut snapshots = surface.snapshots().await?;
    if let Some(sandbox) = query.text("sandboxID") {
        snapshots.retain(|snapshot| snapshot.note.snapshot_of.as_str() == sandbox);
    }
    if let Some(name) = query.text("name") {
        let named = Named::parse(name);
        snapshots.retain(|snapshot| named.as_ref().is_some_and(|named| named.is(snapshot)));
    }
    let place = |snapshot: &Snapshot| format!("{}.{}", snapshot.created.as_nanosecond(), snapshot.base);
    if let Some(token) = query.text("nextToken") {
        let last = snapshots.iter().position(|snapshot| place(snapshot) == token);
        let last =
            last.ok_or_else(|| bad_request("`nextToken` is none of ours; send `x-next-token` of the page before"))?;
        snapshots.drain(..=last);
    }
    let more = snapshots.len() > limit;
    snapshots.truncate(limit);
    let mut headers = HeaderMap::new();
    if more && let Some(next) = snapshots.last().and_then(|last| HeaderValue::from_str(&place(last)).ok()) {
        headers.insert(NEXT, next);
    }
    Ok((headers, Json(snapshots.iter().map(Snapshot::told).collect())))
}

/// `DELETE /templates/{id}` of a snapshot. What is none is left to whoever knows templates.
pub(super) async fn delete(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    request: Request,
    next: Next,
) -> Response {
    let name = request.uri().path().strip_prefix("/templates/").filter(|_| request.method() == Method::DELETE);
    let Some(named) = name.and_then(|name| Named::parse(&decoded(name))) else { return next.run(request).await };
    match surface.delete_snapshots(&holder, &named).await {
        Ok(true) => StatusCode::NO_CONTENT.into_response(),
        Ok(false) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

impl Surface {
    /// All there are, newest first.
    async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let saved = self.host.saved_bases().await?.into_iter();
        let mut snapshots: Vec<Snapshot> = saved
            .filter_map(|(base, note)| {
                // A saved base of somebody else's has another note, or none.
                let note = serde_json::from_str(&note?).ok()?;
                Some(Snapshot { base: base.name, created: base.created, note })
            })
            .collect();
        snapshots.sort_by(|one, other| (other.created, &other.base).cmp(&(one.created, &one.base)));
        Ok(snapshots)
    }

    async fn save(&self, id: &SessionId, note: SnapshotNote) -> Answer<Snapshot> {
        let base = BaseName::new(format!("snap{}", SessionId::random()))?;
        let text = serde_json::to_string(&note)
            .map_err(|source| sandbar_core::Error::internal("a snapshot could not be noted").with_source(source))?;
        let saved = self.host.save_base(id, None, &base, Some(text)).await?;
        let snapshot = Snapshot { base: saved.name, created: saved.created, note };
        if snapshot.note.name.is_some() {
            let earlier = self.snapshots().await?.into_iter().filter(|other| {
                other.base != snapshot.base
                    && other.created <= snapshot.created
                    && (&other.note.name, &other.note.tag) == (&snapshot.note.name, &snapshot.note.tag)
            });
            for earlier in earlier {
                self.host.delete_base(&earlier.base).await?;
            }
        }
        Ok(snapshot)
    }

    /// Whether there was one of this name.
    async fn delete_snapshots(&self, holder: &Holder, named: &Named) -> Answer<bool> {
        let found: Vec<Snapshot> = self.snapshots().await?.into_iter().filter(|snapshot| named.is(snapshot)).collect();
        if !found.is_empty() {
            holder.require(Need::Admin)?;
        }
        for snapshot in &found {
            self.host.delete_base(&snapshot.base).await?;
        }
        Ok(!found.is_empty())
    }

    /// What a sandbox is made from that is made from a snapshot; `None` when there is none of this name.
    pub(crate) async fn snapshot_template(&self, name: &str) -> Result<Option<Template>> {
        let Some(named) = Named::parse(name) else { return Ok(None) };
        let mut snapshots = self.snapshots().await?.into_iter().filter(|snapshot| named.is(snapshot));
        Ok(snapshots.next().map(|snapshot| Template {
            id: snapshot.base.to_string(),
            alias: snapshot.note.name,
            base: snapshot.base,
            defaults: snapshot.note.sandbox,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_tag_and_lose_their_namespace() {
        let named = |text: &str| Named::parse(text).map(|named| (named.name, named.tag));
        assert_eq!(named("My-Snap"), Some(("my-snap".into(), None)));
        assert_eq!(named("team/my-snap:v2"), Some(("my-snap".into(), Some("v2".into()))));
        for bad in ["", ":", "a:", "a b", "a:b:c", "a/", "ä"] {
            assert_eq!(named(bad), None, "{bad}");
        }
    }
}
