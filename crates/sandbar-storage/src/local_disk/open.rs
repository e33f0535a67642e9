//! Opening the store of the `local-disk` backend.

use std::path::Path;

use sandbar_core::Result;

use super::directories::Directories;
use crate::layered::{LayeredStorage, Layout};

pub(crate) type LocalDiskStorage = LayeredStorage<Directories>;

/// Opens or creates the store in `directory`.
pub(crate) fn open(directory: &Path) -> Result<LocalDiskStorage> {
    let layout = Layout::open(directory)?;
    let directories = Directories::open(layout.root())?;
    LayeredStorage::open(directories, layout)
}
