//! The `btrfs` backend: subvolumes and snapshots by ioctl, no subprocess on any request.
//!
//! A data directory on btrfs is used as it is. Elsewhere the backend makes its own [pool image](image), a sparse file that
//! grows with what is written, and mounts it.

mod image;
mod ioctl;
mod loop_device;
mod subvolumes;

use std::path::Path;

use sandbar_core::{ByteCount, Result};

use self::subvolumes::Subvolumes;
use crate::layered::{LayeredStorage, Layout};

pub(crate) type BtrfsStorage = LayeredStorage<Subvolumes>;

/// Opens or makes the pool in `directory`. `limit` bounds a pool image.
pub(crate) fn open(directory: &Path, limit: Option<ByteCount>) -> Result<BtrfsStorage> {
    let subvolumes = Subvolumes::open(directory, limit)?;
    let layout = Layout::open(&subvolumes.root_directory()).inspect_err(|_| {
        if let Err(error) = crate::layered::Primitives::close(&subvolumes) {
            tracing::warn!(error = error.chain(), "could not let go of the pool");
        }
    })?;
    LayeredStorage::open(subvolumes, layout)
}

/// Whether this machine can make a pool image: the kernel knows btrfs, and `mkfs.btrfs` and loop devices are there.
pub(crate) fn usable() -> Result<()> {
    image::usable()
}
