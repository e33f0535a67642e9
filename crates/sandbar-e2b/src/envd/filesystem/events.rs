//! Changes in the words of E2B.
//!
//! What somebody uploads is written beside its place and moved there, so whoever watches would see a file come and go whose
//! name means nothing. They are told what happens where it is written in its place: a new file comes, is given to its
//! owner, and is written. Programs count these.

use std::path::Path;

use sandbar_core::{DirChange, DirChangeKind};
use sandbar_host::DraftKind;

use crate::generated::filesystem::EventType;

/// A change of one path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told<'a> {
    pub(super) path: &'a Path,
    pub(super) kind: EventType,
}

impl Told<'_> {
    /// Whether what it is about is still at its path.
    pub(super) fn has_entry(&self) -> bool {
        matches!(self.kind, EventType::EVENT_TYPE_CREATE | EventType::EVENT_TYPE_WRITE | EventType::EVENT_TYPE_CHMOD)
    }

    /// Its path below the directory that is watched; `.` for the directory itself.
    pub(super) fn name(&self, watched: &Path) -> String {
        let below = self.path.strip_prefix(watched).unwrap_or(self.path);
        if below.as_os_str().is_empty() { ".".into() } else { below.to_string_lossy().into_owned() }
    }
}

/// What is told of a change: nothing, or a few things.
pub(super) fn tell(change: &DirChange) -> Vec<Told<'_>> {
    use EventType as E;
    let told = |path, kind| Told { path, kind };
    let here = change.path.as_path();
    if draft_kind(here).is_some() {
        return Vec::new();
    }
    match &change.kind {
        DirChangeKind::Created => vec![told(here, E::EVENT_TYPE_CREATE)],
        DirChangeKind::Written => vec![told(here, E::EVENT_TYPE_WRITE)],
        DirChangeKind::Removed => vec![told(here, E::EVENT_TYPE_REMOVE)],
        DirChangeKind::Left => vec![told(here, E::EVENT_TYPE_RENAME)],
        DirChangeKind::Attributes => vec![told(here, E::EVENT_TYPE_CHMOD)],
        DirChangeKind::Renamed { from } => match draft_kind(from) {
            Some(DraftKind::NewFile) => {
                let kinds = [E::EVENT_TYPE_CREATE, E::EVENT_TYPE_CHMOD, E::EVENT_TYPE_WRITE];
                kinds.map(|kind| told(here, kind)).into()
            }
            Some(DraftKind::Replacement) => vec![told(here, E::EVENT_TYPE_WRITE)],
            None => vec![told(from, E::EVENT_TYPE_RENAME), told(here, E::EVENT_TYPE_CREATE)],
        },
    }
}

fn draft_kind(path: &Path) -> Option<DraftKind> {
    DraftKind::of(path.file_name()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kind: DirChangeKind, path: &str) -> Vec<String> {
        let change = DirChange { kind, path: path.into(), is_dir: false };
        tell(&change).iter().map(|told| format!("{:?} {}", told.kind, told.name(Path::new("/w")))).collect()
    }

    #[test]
    fn a_rename_is_two_events_and_an_upload_is_what_writing_in_place_would_be() {
        let renamed = |from: &str| DirChangeKind::Renamed { from: from.into() };
        assert_eq!(words(renamed("/w/a"), "/w/d/b"), ["EVENT_TYPE_RENAME a", "EVENT_TYPE_CREATE d/b"]);
        assert_eq!(
            words(renamed("/w/.sandbar-new-1"), "/w/b"),
            ["EVENT_TYPE_CREATE b", "EVENT_TYPE_CHMOD b", "EVENT_TYPE_WRITE b"]
        );
        assert_eq!(words(renamed("/w/.sandbar-old-1"), "/w/b"), ["EVENT_TYPE_WRITE b"]);
        assert_eq!(words(DirChangeKind::Created, "/w/.sandbar-new-1"), Vec::<String>::new());
        assert_eq!(words(DirChangeKind::Left, "/w/b"), ["EVENT_TYPE_RENAME b"]);
        assert_eq!(words(DirChangeKind::Attributes, "/w"), ["EVENT_TYPE_CHMOD ."]);
    }
}
