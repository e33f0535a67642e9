//! Operations on a host.

use crate::shell::Action;

/// One operation. Sessions and snapshots are named by symbols: one that begins with `?` is a
/// placeholder for a generated name.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Create {
        id: String,
        base: &'static str,
        labels: Vec<(&'static str, &'static str)>,
    },
    Destroy {
        id: String,
    },
    Get {
        id: String,
    },
    List {
        label: Option<(&'static str, &'static str)>,
        state: Option<&'static str>,
        page: usize,
        token: Option<&'static str>,
    },
    Write {
        id: String,
        path: &'static str,
        content: String,
        mode: Option<u32>,
        create_dirs: bool,
    },
    Read {
        id: String,
        path: &'static str,
    },
    Stat {
        id: String,
        path: &'static str,
    },
    ListDirectory {
        id: String,
        path: &'static str,
    },
    Exec {
        id: String,
        action: Action,
    },
    Tool {
        id: String,
        call: String,
        tool: ToolUse,
        snapshot: String,
    },
    CompleteTurn {
        id: String,
    },
    TakeSnapshot {
        id: String,
        name: String,
    },
    ListSnapshots {
        id: String,
    },
    DeleteSnapshot {
        id: String,
        name: String,
    },
    Diff {
        id: String,
        from: String,
        to: Option<String>,
    },
    RollBack {
        id: String,
        name: String,
        keep_later: bool,
    },
    Fork {
        id: String,
        from: Option<String>,
        count: usize,
        ids: Vec<String>,
        labels: Vec<(&'static str, &'static str)>,
    },
    Pause {
        id: String,
    },
    Resume {
        id: String,
    },
    Hibernate {
        id: String,
    },
    Wake {
        id: String,
    },
    Restart,
}

/// A tool with its parameters.
#[derive(Clone, Debug)]
pub(crate) enum ToolUse {
    WriteFile {
        path: &'static str,
        content: String,
    },
    EditFile {
        path: &'static str,
        old: &'static str,
        new: &'static str,
    },
    Bash {
        action: Action,
    },
    /// There is no such tool.
    Unknown,
}

/// Whether a symbol is a placeholder for a generated name.
pub(crate) fn is_generated(symbol: &str) -> bool {
    symbol.starts_with('?')
}
