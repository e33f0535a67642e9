//! Outcomes of operations, as far as they can be predicted.
//!
//! Left out on purpose: times, sizes on disk, durations, and the words of errors. Generated names
//! are replaced by the symbols the operation gave them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use sandbar_core::ErrorCode;

/// An operation succeeds with something, or is refused.
pub(crate) type Answer = Result<Outcome, Refusal>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Done,
    Session(SessionView),
    Sessions(Vec<SessionView>),
    /// A listing, page by page.
    Pages(Vec<Vec<SessionView>>),
    Snapshot(SnapshotView),
    Snapshots(Vec<SnapshotView>),
    Changes(Vec<ChangeView>),
    Content(String),
    Entry(EntryView),
    Entries(Vec<(PathBuf, EntryView)>),
    Command {
        succeeded: bool,
        output: String,
    },
    Tool(ToolView),
}

/// A refusal: the code clients match on, and the field that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) field: Option<String>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode) -> Self {
        Self { code, field: None }
    }

    pub(crate) fn of(code: ErrorCode, field: &str) -> Self {
        Self {
            code,
            field: Some(field.to_owned()),
        }
    }

    pub(crate) fn invalid(field: &str) -> Self {
        Self::of(ErrorCode::InvalidArgument, field)
    }

    pub(crate) fn no_file() -> Self {
        Self::of(ErrorCode::FileNotFound, "path")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SessionView {
    pub(crate) id: String,
    pub(crate) state: String,
    pub(crate) base: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) turns: u64,
    pub(crate) snapshots: u64,
    pub(crate) parent: Option<(String, Option<String>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SnapshotView {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) parent: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EntryView {
    Directory { mode: u32 },
    File { mode: u32, content: String },
    Link { target: PathBuf },
}

impl EntryView {
    fn kind(&self) -> &'static str {
        match self {
            Self::Directory { .. } => "directory",
            Self::File { .. } => "file",
            Self::Link { .. } => "symlink",
        }
    }

    fn mode(&self) -> Option<u32> {
        match self {
            Self::Directory { mode } | Self::File { mode, .. } => Some(*mode),
            Self::Link { .. } => None,
        }
    }

    fn size(&self) -> u64 {
        match self {
            Self::File { content, .. } => content.len() as u64,
            Self::Directory { .. } | Self::Link { .. } => 0,
        }
    }
}

/// A difference. Of a modified entry, the time is not compared: whether it differs depends on the
/// clock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChangeView {
    pub(crate) path: PathBuf,
    pub(crate) kind: &'static str,
    pub(crate) entry: &'static str,
    pub(crate) aspects: BTreeSet<&'static str>,
    pub(crate) size: u64,
}

impl ChangeView {
    pub(crate) fn added(path: &Path, is: &EntryView) -> Self {
        Self::new(path, "added", is, BTreeSet::new())
    }

    pub(crate) fn deleted(path: &Path, was: &EntryView) -> Self {
        Self::new(path, "deleted", was, BTreeSet::new())
    }

    pub(crate) fn modified(path: &Path, was: &EntryView, is: &EntryView) -> Self {
        let content = |entry: &EntryView| match entry {
            EntryView::File { content, .. } => content.clone(),
            EntryView::Link { target } => target.to_string_lossy().into_owned(),
            EntryView::Directory { .. } => String::new(),
        };
        let aspects = if was.kind() == is.kind() {
            let differs = [
                ("content", content(was) != content(is)),
                ("mode", was.mode() != is.mode()),
            ];
            differs
                .into_iter()
                .filter_map(|(aspect, differs)| differs.then_some(aspect))
                .collect()
        } else {
            BTreeSet::from(["type"])
        };
        Self::new(path, "modified", is, aspects)
    }

    fn new(
        path: &Path,
        kind: &'static str,
        entry: &EntryView,
        aspects: BTreeSet<&'static str>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            entry: entry.kind(),
            aspects,
            size: entry.size(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolView {
    pub(crate) is_error: bool,
    /// The words of an answer, where they follow from what was asked.
    pub(crate) content: Option<String>,
    /// Whether it is the answer of an earlier call of the same name, to the last nanosecond.
    pub(crate) repeated: bool,
    pub(crate) snapshot: Option<String>,
}

/// Everything there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct World {
    pub(crate) sessions: Vec<SessionView>,
    pub(crate) snapshots: BTreeMap<String, Vec<SnapshotView>>,
    /// Files below `/workspace`, of sessions with a volume.
    pub(crate) files: BTreeMap<String, BTreeMap<PathBuf, EntryView>>,
    /// Content of the storage: volumes with their snapshots.
    pub(crate) volumes: BTreeMap<String, BTreeSet<String>>,
}
