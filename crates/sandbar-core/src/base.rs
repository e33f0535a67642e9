//! Bases, as callers see them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{BaseName, ByteCount};

/// What is known about a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseInfo {
    pub name: BaseName,
    /// Where it came from: `host`, `directory`, `tar`, `oci-layout`, `docker-archive`.
    pub source: String,
    pub created: Timestamp,
    /// Bytes of its own files; what the host lends is not counted.
    pub size: ByteCount,
    /// Environment its image asks for.
    pub env: BTreeMap<String, String>,
}
