//! Bases, as callers see them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{BaseName, ByteCount, Result, SnapshotName, session::validate_env};

/// What is known about a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseInfo {
    pub name: BaseName,
    /// Where it came from: `host`, `directory`, `tar`, `oci-layout`, `docker-archive`, `session`.
    pub source: String,
    pub created: Timestamp,
    /// Bytes of its own files; what the host lends, and the base a session stood on, are not counted.
    pub size: ByteCount,
    /// Environment its image asks for.
    pub env: BTreeMap<String, String>,
}

/// A request to make a base from a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveBase {
    pub name: BaseName,
    /// The snapshot to make it from; now when absent.
    pub from: Option<SnapshotName>,
    /// Environment of what runs in sessions made from it, over that of the base of this session.
    pub env: BTreeMap<String, String>,
    /// Kept with it for whoever asks, at most 64 KiB.
    pub note: Option<String>,
}

impl SaveBase {
    /// From the session as it is now.
    pub fn new(name: BaseName) -> Self {
        Self { name, from: None, env: BTreeMap::new(), note: None }
    }

    /// Checks what the types alone cannot: environment names.
    pub fn validate(&self) -> Result<()> {
        validate_env(&self.env)
    }
}
