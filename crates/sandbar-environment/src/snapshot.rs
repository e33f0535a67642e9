//! Snapshots.

use std::fmt;

use jiff::Timestamp;
use sandbar_core::ByteCount;

/// Id of a snapshot, valid for the environment that returned it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(String);

impl SnapshotId {
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Description of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub id: SnapshotId,
    pub name: String,
    pub created_at: Timestamp,
    /// Bytes that only this snapshot holds, if known.
    pub space_used: Option<ByteCount>,
}
