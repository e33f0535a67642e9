//! The differences between two views, sorted by path.

use std::path::PathBuf;

use sandbar_core::{Change, Result};

use super::walk;
use crate::TreeView;

/// Difference, and the location of its newer side on disk.
#[derive(Clone, Debug)]
pub struct DiffEntry {
    /// The change. Includes entries that differ only in their time, which listings for humans leave
    /// out.
    pub change: Change,
    /// File on disk with content and metadata of an added or modified entry.
    pub source: Option<PathBuf>,
}

/// Returns every difference between two views, sorted by path. The subtree of an added or deleted
/// directory is listed entry by entry.
pub fn between(from: &TreeView, to: &TreeView) -> Result<Vec<DiffEntry>> {
    let mut entries = Vec::new();
    for new in &to.layers {
        let old = from
            .layers
            .iter()
            .find(|old| old.mount_point == new.mount_point);
        walk::layer(old, new, from, to, &mut entries)?;
    }
    entries.sort_by(|a, b| a.change.path.cmp(&b.change.path));
    Ok(entries)
}
