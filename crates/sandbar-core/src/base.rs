//! Bases: read-only root file systems that sessions start from.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{BaseName, ByteCount, Result, SnapshotName, session::validate_env};

/// Name of the base made of the host's own `/usr` and its siblings. It needs no import.
pub const HOST_BASE: &str = "host";

/// Description of a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseInfo {
    pub name: BaseName,
    /// Kind of source: `host`, `directory`, `tar`, `oci-layout`, `docker-archive`, `session`.
    pub source: String,
    pub created: Timestamp,
    /// Bytes of its own files, without files bind-mounted from the host and without the base of the
    /// session it was saved from.
    pub size: ByteCount,
    /// Environment variables of its image.
    pub env: BTreeMap<String, String>,
}

/// Request to save a session as a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveBase {
    pub name: BaseName,
    /// Snapshot to save; the current state when absent.
    pub from: Option<SnapshotName>,
    /// Environment variables of sessions made from it, in addition to those of this session's base.
    pub env: BTreeMap<String, String>,
    /// Free text of the caller, stored with the base; at most 64 KiB.
    pub note: Option<String>,
}

impl SaveBase {
    /// Returns a request to save the current state.
    pub fn new(name: BaseName) -> Self {
        Self {
            name,
            from: None,
            env: BTreeMap::new(),
            note: None,
        }
    }

    /// Checks the environment variables.
    pub fn validate(&self) -> Result<()> {
        validate_env(&self.env)
    }
}
