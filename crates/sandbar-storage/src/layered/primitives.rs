//! What a layered store needs from the file system below it.

use std::{fmt, path::Path};

use jiff::Timestamp;
use sandbar_core::{ByteCount, Result, StorageKind};

use crate::{Space, StorageFacts};

/// Trees that are made, copied and removed. `LayeredStorage` builds everything else from these.
pub(crate) trait Primitives: fmt::Debug + Send + Sync + 'static {
    fn kind(&self) -> StorageKind;

    fn facts(&self) -> &StorageFacts;

    /// Makes an empty writable tree at `path`, whose parent exists.
    fn make_tree(&self, path: &Path) -> Result<()>;

    /// Makes `destination` a copy of `source`. When the call is interrupted, `destination` is absent or whole; half-made
    /// work may stay in `staging`.
    fn copy_tree(&self, source: &Path, destination: &Path, access: TreeAccess, staging: &Path) -> Result<()>;

    /// Removes a tree; an absent one is fine.
    fn remove_tree(&self, path: &Path) -> Result<()>;

    /// When the tree at `path` was made.
    fn birth(&self, path: &Path) -> Result<Birth>;

    /// Whether files keep `(inode, ctime)` through `copy_tree`.
    fn stable_inodes(&self) -> bool;

    /// Bytes `tree` holds of its own.
    fn usage(&self, tree: &Path) -> Result<ByteCount>;

    fn set_quota(&self, tree: &Path, quota: Option<ByteCount>) -> Result<()>;

    fn space(&self) -> Result<Space>;

    /// Waits until removed trees have given their space back.
    fn settle(&self) -> Result<()>;

    /// Lets go of the pool.
    fn close(&self) -> Result<()>;
}

/// When a tree was made. Births are ordered as the trees were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Birth {
    /// A number that grows with every tree, where the file system has one; 0 where the time has to do.
    pub(crate) sequence: u64,
    pub(crate) created: Timestamp,
}

/// Whether a copied tree may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeAccess {
    ReadOnly,
    Writable,
}
