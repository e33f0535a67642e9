//! Directory changes as events of E2B.
//!
//! The host writes an upload to a draft file and renames it into place. Watchers must not see the
//! draft: the rename is reported as the events of writing in place (create, chmod, write), because
//! programs count them.

use std::path::Path;

use sandbar_core::{DirChange, DirChangeKind};
use sandbar_host::DraftKind;

use crate::generated::filesystem::EventType;

/// An event about one path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathEvent<'a> {
    pub(super) path: &'a Path,
    pub(super) kind: EventType,
}

impl PathEvent<'_> {
    /// Returns whether the path still exists after the event.
    pub(super) fn has_entry(&self) -> bool {
        matches!(
            self.kind,
            EventType::EVENT_TYPE_CREATE
                | EventType::EVENT_TYPE_WRITE
                | EventType::EVENT_TYPE_CHMOD
        )
    }

    /// Returns the path relative to the watched directory; `.` for the directory itself.
    pub(super) fn name(&self, watched: &Path) -> String {
        let below = self.path.strip_prefix(watched).unwrap_or(self.path);
        if below.as_os_str().is_empty() {
            ".".into()
        } else {
            below.to_string_lossy().into_owned()
        }
    }
}

/// Returns the events for a change.
pub(super) fn events_of(change: &DirChange) -> Vec<PathEvent<'_>> {
    use EventType as E;
    let event = |path, kind| PathEvent { path, kind };
    let here = change.path.as_path();
    if draft_kind(here).is_some() {
        return Vec::new();
    }
    match &change.kind {
        DirChangeKind::Created => vec![event(here, E::EVENT_TYPE_CREATE)],
        DirChangeKind::Written => vec![event(here, E::EVENT_TYPE_WRITE)],
        DirChangeKind::Removed => vec![event(here, E::EVENT_TYPE_REMOVE)],
        DirChangeKind::Left => vec![event(here, E::EVENT_TYPE_RENAME)],
        DirChangeKind::Attributes => vec![event(here, E::EVENT_TYPE_CHMOD)],
        DirChangeKind::Renamed { from } => match draft_kind(from) {
            Some(DraftKind::NewFile) => {
                let kinds = [
                    E::EVENT_TYPE_CREATE,
                    E::EVENT_TYPE_CHMOD,
                    E::EVENT_TYPE_WRITE,
                ];
                kinds.map(|kind| event(here, kind)).into()
            }
            Some(DraftKind::Replacement) => vec![event(here, E::EVENT_TYPE_WRITE)],
            None => vec![
                event(from, E::EVENT_TYPE_RENAME),
                event(here, E::EVENT_TYPE_CREATE),
            ],
        },
    }
}

fn draft_kind(path: &Path) -> Option<DraftKind> {
    DraftKind::of(path.file_name()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(kind: DirChangeKind, path: &str) -> Vec<String> {
        let change = DirChange {
            kind,
            path: path.into(),
            is_dir: false,
        };
        events_of(&change)
            .iter()
            .map(|event| format!("{:?} {}", event.kind, event.name(Path::new("/w"))))
            .collect()
    }

    #[test]
    fn upload_is_reported_as_writing_in_place() {
        let renamed = |from: &str| DirChangeKind::Renamed { from: from.into() };
        assert_eq!(
            describe(renamed("/w/a"), "/w/d/b"),
            ["EVENT_TYPE_RENAME a", "EVENT_TYPE_CREATE d/b"]
        );
        assert_eq!(
            describe(renamed("/w/.sandbar-new-1"), "/w/b"),
            [
                "EVENT_TYPE_CREATE b",
                "EVENT_TYPE_CHMOD b",
                "EVENT_TYPE_WRITE b"
            ]
        );
        assert_eq!(
            describe(renamed("/w/.sandbar-old-1"), "/w/b"),
            ["EVENT_TYPE_WRITE b"]
        );
        assert_eq!(
            describe(DirChangeKind::Created, "/w/.sandbar-new-1"),
            Vec::<String>::new()
        );
        assert_eq!(
            describe(DirChangeKind::Left, "/w/b"),
            ["EVENT_TYPE_RENAME b"]
        );
        assert_eq!(
            describe(DirChangeKind::Attributes, "/w"),
            ["EVENT_TYPE_CHMOD ."]
        );
    }
}
