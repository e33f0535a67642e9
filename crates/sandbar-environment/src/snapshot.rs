//! Snapshots.

use std::fmt;

use jiff::Timestamp;
use sandbar_core::ByteCount;

/// What a provider calls a snapshot. Only the environment that gave it can read it.
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

/// What is known about a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub id: SnapshotId,
    pub name: String,
    pub created_at: Timestamp,
    /// Bytes only this snapshot holds, where the provider knows.
    pub space_used: Option<ByteCount>,
}
