//! What differs between two trees of a volume.
//!
//! The walk goes down both trees at once and only where a session wrote: a directory that neither tree has in its own
//! layer is the base's and equal, so the cost follows the changes and not the base. Everything is reached by descriptors
//! and no link is followed, because a live tree belongs to whoever runs in it.

mod compare;
mod merged;
mod walk;

use std::path::PathBuf;

use sandbar_core::{Change, Result};

use crate::TreeView;

/// One difference, and where the newer side of it lies on disk.
#[derive(Clone, Debug)]
pub struct DiffEntry {
    /// Also reports entries of which only the time differs; people's listings leave those out.
    pub change: Change,
    /// The real file with the content and metadata of an added or modified entry.
    pub source: Option<PathBuf>,
}

/// Every difference between two views, sorted by path. The subtree of an added or deleted directory is listed entry by
/// entry.
pub fn between(from: &TreeView, to: &TreeView) -> Result<Vec<DiffEntry>> {
    let mut entries = Vec::new();
    for new in &to.layers {
        let old = from.layers.iter().find(|old| old.mount_point == new.mount_point);
        walk::layer(old, new, from, to, &mut entries)?;
    }
    entries.sort_by(|a, b| a.change.path.cmp(&b.change.path));
    Ok(entries)
}
