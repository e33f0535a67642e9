//! Opening the pool of the `btrfs` backend.

use std::path::Path;

use sandbar_core::{ByteCount, Result};

use super::{image, subvolumes::Subvolumes};
use crate::layered::{LayeredStorage, Layout, Primitives as _};

pub(crate) type BtrfsStorage = LayeredStorage<Subvolumes>;

/// Opens or creates the pool in `directory`. `limit` bounds the size of a pool image.
pub(crate) fn open(directory: &Path, limit: Option<ByteCount>) -> Result<BtrfsStorage> {
    let subvolumes = Subvolumes::open(directory, limit)?;
    let layout = Layout::open(&subvolumes.root_directory()).inspect_err(|_| {
        if let Err(error) = subvolumes.close() {
            tracing::warn!(error = error.chain(), "could not close the pool");
        }
    })?;
    LayeredStorage::open(subvolumes, layout)
}

/// Checks that this machine can create a pool image: the kernel supports btrfs, and `mkfs.btrfs`
/// and loop devices are available.
pub(crate) fn usable() -> Result<()> {
    image::usable()
}
