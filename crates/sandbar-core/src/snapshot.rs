//! Snapshots: their kinds, and what is known about one.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ByteCount, Error, Result, SnapshotName};

/// Why a snapshot exists. Only turn and tool snapshots are ever pruned.
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
            other => Err(Error::invalid("kind", format!("snapshot kind `{}` is unknown", other.escape_debug()))
                .with_hint("use named, turn or tool")),
        }
    }
}

/// What is known about a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotInfo {
    pub name: SnapshotName,
    pub kind: SnapshotKind,
    pub created: Timestamp,
    /// The snapshot the volume stood on when this one was taken: the lineage is a tree.
    pub parent: Option<SnapshotName>,
    /// Bytes only this snapshot holds, where the backend knows.
    pub space_used: Option<ByteCount>,
}

/// What a rollback does with the snapshots taken after its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterSnapshots {
    Keep,
    Drop,
}

/// Whether what runs in a session is frozen while its volume is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quiesce {
    /// Only where the storage would otherwise mix several moments. What runs meanwhile is caught as a crash would catch
    /// it.
    #[default]
    WhereNeeded,
    /// Always; refused where nothing can be frozen.
    Always,
}
