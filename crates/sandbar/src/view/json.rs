//! JSON of sessions, snapshots, bases and file changes.

use std::{collections::BTreeMap, os::unix::ffi::OsStrExt};

use base64::{Engine, engine::general_purpose::STANDARD};
use sandbar_core::{BaseInfo, Change, NetworkPolicy, SessionInfo, SnapshotInfo};
use serde::Serialize;

/// JSON of a session.
#[derive(Debug, Serialize)]
pub(crate) struct SessionView<'a> {
    session_id: &'a str,
    state: &'static str,
    base_snapshot: &'a str,
    labels: &'a BTreeMap<String, String>,
    storage_backend: &'static str,
    container_runtime: &'static str,
    created: String,
    expires: Option<String>,
    on_expiry: &'static str,
    idle_timeout_seconds: Option<f64>,
    quota: Option<u64>,
    network: Option<&'a NetworkPolicy>,
    root_rights: &'static str,
    space_used: u64,
    turn_count: u64,
    snap_count: u64,
    parent: Option<ParentView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageView>,
}

#[derive(Debug, Serialize)]
struct UsageView {
    cpu_time_seconds: Option<f64>,
    memory: Option<u64>,
    processes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ParentView<'a> {
    session_id: &'a str,
    snapshot: Option<&'a str>,
}

impl<'a> From<&'a SessionInfo> for SessionView<'a> {
    fn from(session: &'a SessionInfo) -> Self {
        Self {
            session_id: session.id.as_str(),
            state: session.state.as_str(),
            base_snapshot: session.base.as_str(),
            labels: &session.labels,
            storage_backend: session.storage.as_str(),
            container_runtime: session.runtime.as_str(),
            created: session.created.to_string(),
            expires: session.expires.map(|expires| expires.to_string()),
            on_expiry: session.on_expiry.as_str(),
            idle_timeout_seconds: session.idle_timeout.map(|time| time.as_secs_f64()),
            quota: session.quota.map(sandbar_core::ByteCount::get),
            network: session.network.as_ref(),
            root_rights: session.root_rights.as_str(),
            space_used: session.space_used.get(),
            turn_count: session.turn_count,
            snap_count: session.snapshot_count,
            parent: session.parent.as_ref().map(|(id, snapshot)| ParentView {
                session_id: id.as_str(),
                snapshot: snapshot.as_ref().map(sandbar_core::SnapshotName::as_str),
            }),
            usage: session.usage.map(|usage| UsageView {
                cpu_time_seconds: usage.cpu_time.map(|time| time.as_secs_f64()),
                memory: usage.memory.map(sandbar_core::ByteCount::get),
                processes: usage.processes,
            }),
        }
    }
}

/// JSON of a snapshot.
#[derive(Debug, Serialize)]
pub(crate) struct SnapshotView<'a> {
    name: &'a str,
    kind: &'static str,
    created: String,
    parent: Option<&'a str>,
    space_used: Option<u64>,
}

impl<'a> From<&'a SnapshotInfo> for SnapshotView<'a> {
    fn from(snapshot: &'a SnapshotInfo) -> Self {
        Self {
            name: snapshot.name.as_str(),
            kind: snapshot.kind.as_str(),
            created: snapshot.created.to_string(),
            parent: snapshot
                .parent
                .as_ref()
                .map(sandbar_core::SnapshotName::as_str),
            space_used: snapshot.space_used.map(sandbar_core::ByteCount::get),
        }
    }
}

/// JSON of a base.
#[derive(Debug, Serialize)]
pub(crate) struct BaseView<'a> {
    name: &'a str,
    source: &'a str,
    created: String,
    size: u64,
    env: &'a BTreeMap<String, String>,
}

impl<'a> From<&'a BaseInfo> for BaseView<'a> {
    fn from(base: &'a BaseInfo) -> Self {
        Self {
            name: base.name.as_str(),
            source: &base.source,
            created: base.created.to_string(),
            size: base.size.get(),
            env: &base.env,
        }
    }
}

/// JSON of a file change. It has `path` if the path is UTF-8, else `path_base64`: never a lossy
/// path.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeView<'a> {
    kind: &'static str,
    entry: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    aspects: Vec<&'static str>,
    size: u64,
}

impl<'a> From<&'a Change> for ChangeView<'a> {
    fn from(change: &'a Change) -> Self {
        let path = change.path.to_str();
        Self {
            kind: change.kind.as_str(),
            entry: change.entry.as_str(),
            path,
            path_base64: path
                .is_none()
                .then(|| STANDARD.encode(change.path.as_os_str().as_bytes())),
            aspects: change
                .aspects
                .iter()
                .map(sandbar_core::Aspect::as_str)
                .collect(),
            size: change.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, path::Path};

    use sandbar_core::{Aspect, Aspects, ChangeKind, EntryType};

    use super::*;

    fn change(path: &[u8]) -> Change {
        Change {
            path: Path::new(OsStr::from_bytes(path)).to_owned(),
            kind: ChangeKind::Modified,
            entry: EntryType::File,
            aspects: Aspects::NONE.with(Aspect::Mode),
            size: 3,
        }
    }

    #[test]
    fn path_is_text_if_utf8_else_base64() {
        let text = serde_json::to_value(ChangeView::from(&change(b"/a\nb"))).unwrap();
        assert_eq!(text["path"], "/a\nb");
        assert!(text.get("path_base64").is_none());
        let bytes = serde_json::to_value(ChangeView::from(&change(b"/\xff"))).unwrap();
        assert_eq!(bytes["path_base64"], "L/8=");
        assert!(bytes.get("path").is_none());
        assert_eq!(bytes["aspects"], serde_json::json!(["mode"]));
    }
}
