//! The `local-disk` backend: plain directories on any file system.
//!
//! A snapshot copies the session's own layer: by reflink where the file system shares extents (XFS, btrfs, bcachefs), else byte
//! by byte. Its cost grows with what the session has written, never with the base, and `doctor` says so.

mod directories;
mod project_quota;
mod quota_calls;

use std::path::Path;

use sandbar_core::Result;

use self::directories::Directories;
use crate::layered::{LayeredStorage, Layout};

pub(crate) type LocalDiskStorage = LayeredStorage<Directories>;

/// Opens or makes the store in `directory`.
pub(crate) fn open(directory: &Path) -> Result<LocalDiskStorage> {
    let layout = Layout::open(directory)?;
    let directories = Directories::open(layout.root())?;
    LayeredStorage::open(directories, layout)
}
