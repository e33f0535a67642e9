//! Snapshots of a session.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ByteCount, Error, Result, SnapshotName};

/// Origin of a snapshot. Only turn and tool snapshots are pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotKind {
    Named,
    Turn,
    Tool,
}

impl SnapshotKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Turn => "turn",
            Self::Tool => "tool",
        }
    }
}

impl fmt::Display for SnapshotKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SnapshotKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "named" => Ok(Self::Named),
            "turn" => Ok(Self::Turn),
            "tool" => Ok(Self::Tool),
            other => Err(Error::invalid(
                "kind",
                format!("snapshot kind `{}` is unknown", other.escape_debug()),
            )
            .with_hint("use named, turn or tool")),
        }
    }
}

/// Description of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotInfo {
    pub name: SnapshotName,
    pub kind: SnapshotKind,
    pub created: Timestamp,
    /// Previous snapshot of the volume. The lineage is a tree.
    pub parent: Option<SnapshotName>,
    /// Bytes that only this snapshot uses, where the backend knows.
    pub space_used: Option<ByteCount>,
}

/// Treatment of snapshots that are newer than the target of a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterSnapshots {
    Keep,
    Drop,
}

/// Whether the processes of a session are frozen while its volume is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quiesce {
    /// Only where the storage cannot copy atomically. Otherwise the copy is crash-consistent.
    #[default]
    WhereNeeded,
    /// Always; refused where the runtime cannot freeze processes.
    Always,
}
