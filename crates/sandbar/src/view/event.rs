//! Presentation of events and directory changes.

use std::{os::unix::ffi::OsStrExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use sandbar_core::{DirChange, DirChangeKind, SessionEvent, SessionState};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{audit_detail, moment};
use crate::terminal::output::printable;

/// JSON of an event.
#[derive(Debug, Serialize)]
pub(crate) struct EventView<'a> {
    sequence: u64,
    at: String,
    session_id: &'a str,
    actor: &'a str,
    kind: &'static str,
    state: Option<&'static str>,
    outcome: &'a str,
    detail: &'a Map<String, Value>,
}

impl<'a> From<&'a SessionEvent> for EventView<'a> {
    fn from(event: &'a SessionEvent) -> Self {
        Self {
            sequence: event.sequence,
            at: event.at.to_string(),
            session_id: event.session.as_str(),
            actor: event.actor.as_str(),
            kind: event.kind.as_str(),
            state: event.state.map(SessionState::as_str),
            outcome: &event.outcome,
            detail: &event.detail,
        }
    }
}

/// Formats an event as one line.
pub(crate) fn event_line(event: &SessionEvent) -> String {
    let mut line = format!("{}  {}  {}", moment(event.at), event.session, event.kind);
    for word in [
        event.state.map(SessionState::as_str),
        Some(event.outcome.as_str()).filter(|outcome| *outcome != "ok"),
    ] {
        line.extend(word.map(|word| format!(" {word}")));
    }
    let detail = audit_detail(&event.detail);
    if !detail.is_empty() {
        line.push_str("  ");
        line.push_str(&printable(detail.as_bytes()));
    }
    line
}

/// JSON of a directory change. A path is text if it is UTF-8, else base64.
#[derive(Debug, Serialize)]
pub(crate) struct DirChangeView<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_base64: Option<String>,
    is_dir: bool,
}

impl<'a> From<&'a DirChange> for DirChangeView<'a> {
    fn from(change: &'a DirChange) -> Self {
        let before = match &change.kind {
            DirChangeKind::Renamed { from } => Some(from.as_path()),
            _ => None,
        };
        let ((path, path_base64), before) = (shown(&change.path), before.map(shown));
        let (from, from_base64) = before.unwrap_or_default();
        Self {
            kind: name(&change.kind),
            path,
            path_base64,
            from,
            from_base64,
            is_dir: change.is_dir,
        }
    }
}

fn shown(path: &Path) -> (Option<&str>, Option<String>) {
    let text = path.to_str();
    (
        text,
        text.is_none()
            .then(|| STANDARD.encode(path.as_os_str().as_bytes())),
    )
}

fn name(kind: &DirChangeKind) -> &'static str {
    match kind {
        DirChangeKind::Created => "created",
        DirChangeKind::Written => "written",
        DirChangeKind::Removed | DirChangeKind::Left => "removed",
        DirChangeKind::Renamed { .. } => "renamed",
        DirChangeKind::Attributes => "attributes",
    }
}

/// Formats a directory change as one line.
pub(crate) fn dir_change_line(change: &DirChange) -> String {
    let slash = if change.is_dir { "/" } else { "" };
    let path = |path: &Path| format!("{}{slash}", printable(path.as_os_str().as_bytes()));
    let mut line = format!("{:<10} ", name(&change.kind));
    if let DirChangeKind::Renamed { from } = &change.kind {
        line.push_str(&path(from));
        line.push_str(" -> ");
    }
    line + &path(&change.path)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, path::PathBuf};

    use sandbar_core::{Actor, EventKind, SessionId};

    use super::*;

    #[test]
    fn event_is_one_line_and_one_object() {
        let event = SessionEvent {
            sequence: 7,
            at: jiff::Timestamp::UNIX_EPOCH,
            session: SessionId::new("box").unwrap(),
            actor: Actor::host(),
            kind: EventKind::ToolFinished,
            state: None,
            outcome: "failed".into(),
            detail: Map::from_iter([("tool".to_owned(), "bash".into())]),
        };
        assert!(
            event_line(&event).ends_with("  box  tool-finished failed  tool=bash"),
            "{}",
            event_line(&event)
        );
        let shown = serde_json::to_value(EventView::from(&event)).unwrap();
        assert_eq!(
            (&shown["sequence"], &shown["kind"], &shown["state"]),
            (&7.into(), &"tool-finished".into(), &Value::Null)
        );
    }

    #[test]
    fn change_with_an_invalid_utf8_name_is_shown() {
        let odd = PathBuf::from(OsStr::from_bytes(b"/a\xff"));
        let change = DirChange {
            kind: DirChangeKind::Renamed { from: odd },
            path: "/b".into(),
            is_dir: true,
        };
        let shown = serde_json::to_value(DirChangeView::from(&change)).unwrap();
        assert_eq!(
            shown,
            serde_json::json!({"kind": "renamed", "path": "/b", "from_base64": "L2H/", "is_dir": true})
        );
        assert!(
            dir_change_line(&change).starts_with("renamed    /a")
                && dir_change_line(&change).ends_with("/ -> /b/")
        );
        let plain = DirChange {
            kind: DirChangeKind::Created,
            path: "/x".into(),
            is_dir: false,
        };
        assert_eq!(dir_change_line(&plain), "created    /x");
    }
}
