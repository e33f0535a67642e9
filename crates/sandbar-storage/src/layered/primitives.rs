//! Operations a layered store needs from the file system below it.

use std::{fmt, path::Path};

use jiff::Timestamp;
use sandbar_core::{ByteCount, Result, StorageKind};

use crate::{Space, StorageFacts};

/// Creates, copies and removes trees; `LayeredStorage` builds everything else on these.
pub(crate) trait Primitives: fmt::Debug + Send + Sync + 'static {
    fn kind(&self) -> StorageKind;

    fn facts(&self) -> &StorageFacts;

    /// Creates an empty writable tree at `path`, whose parent exists.
    fn make_tree(&self, path: &Path) -> Result<()>;

    /// Copies `source` to `destination`. After an interruption, `destination` is absent or
    /// complete; an incomplete copy may stay in `staging`.
    fn copy_tree(
        &self,
        source: &Path,
        destination: &Path,
        access: TreeAccess,
        staging: &Path,
    ) -> Result<()>;

    /// Removes a tree. A missing one is success.
    fn remove_tree(&self, path: &Path) -> Result<()>;

    /// Returns when the tree at `path` was created.
    fn birth(&self, path: &Path) -> Result<Birth>;

    /// Returns whether files keep `(inode, ctime)` through `copy_tree`.
    fn stable_inodes(&self) -> bool;

    /// Returns the bytes `tree` uses itself.
    fn usage(&self, tree: &Path) -> Result<ByteCount>;

    fn set_quota(&self, tree: &Path, quota: Option<ByteCount>) -> Result<()>;

    fn space(&self) -> Result<Space>;

    /// Waits until the space of removed trees is free.
    fn settle(&self) -> Result<()>;

    /// Removes the permissions that other users were given on the files of the pool.
    fn close_to_others(&self) -> Result<()> {
        Ok(())
    }

    /// Closes the pool.
    fn close(&self) -> Result<()>;
}

/// Creation of a tree, ordered by creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Birth {
    /// Increasing number of the tree, where the file system has one; else 0, and the time decides.
    pub(crate) sequence: u64,
    pub(crate) created: Timestamp,
}

/// Access mode of a copied tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeAccess {
    ReadOnly,
    Writable,
}
