//! Detached clones of mounts, configured completely before they become visible.

use std::{
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::CWD,
    io::Errno,
    mount::{MountAttrFlags, MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
};
use sandbar_core::{Error, OwnerMap, Result};

use crate::{
    mount_attributes::{Extent, MountAttributes, NOSUID_NODEV},
    overlay::open_mount_point,
};

/// Detached bind mount of a directory. Dropped unless it was attached.
#[derive(Debug)]
pub(crate) struct MountClone(OwnedFd);

impl MountClone {
    /// Clones the mount of a directory with these flags, ID-mapped when a map is given.
    pub(crate) fn of(
        directory: &Path,
        extent: Extent,
        flags: MountAttrFlags,
        owners: Option<&OwnerMap>,
    ) -> Result<Self> {
        let complain = |errno: Errno| {
            Error::io(
                format!("copy the mount of `{}`", directory.display()),
                errno.into(),
            )
        };
        let mut how = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        if extent == Extent::WithSubmounts {
            how |= OpenTreeFlags::AT_RECURSIVE;
        }
        let tree = open_tree(CWD, directory, how).map_err(complain)?;
        let attributes = MountAttributes {
            flags,
            owners,
            private: true,
        };
        attributes.apply(tree.as_fd(), extent).map_err(complain)?;
        Ok(Self(tree))
    }

    /// Returns a path into the clone, valid while it lives.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Attaches it to the directory that `target` is open on.
    pub(crate) fn attach(&self, target: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&self.0, "", target, "", flags)
    }
}

impl From<OwnedFd> for MountClone {
    /// Wraps a detached mount.
    fn from(mount: OwnedFd) -> Self {
        Self(mount)
    }
}

/// Binds the directory `tree` at `place` with `nosuid` and `nodev`, ID-mapped when a map is given.
pub(crate) fn bind(tree: &Path, place: &Path, owners: Option<&OwnerMap>) -> Result<()> {
    let clone = MountClone::of(tree, Extent::Alone, NOSUID_NODEV, owners)?;
    let target = open_mount_point(place, "/".as_ref())?;
    clone.attach(target.as_fd()).map_err(|errno| {
        Error::io(
            format!("bind `{}` at `{}`", tree.display(), place.display()),
            errno.into(),
        )
    })
}
