//! Showing a directory of this machine inside a volume, read-only.

use std::{os::fd::AsFd as _, path::Path};

use rustix::mount::MountAttrFlags;
use sandbar_core::{Error, OwnerMap, Result};

use crate::{
    mount_attributes::{Extent, HARMLESS},
    mount_clone::MountClone,
    overlay::open_mount_point,
};

/// Binds `source`, with everything mounted below it, read-only at `mount_point` inside the tree at `root`. Nobody ever
/// sees it writable, and later mounts of the machine do not appear in it.
pub(super) fn lend(source: &Path, root: &Path, mount_point: &Path, owners: Option<&OwnerMap>) -> Result<()> {
    let target = open_mount_point(root, mount_point)?;
    let flags = HARMLESS | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let clone = MountClone::of(source, Extent::WithSubmounts, flags, owners)?;
    clone.attach(target.as_fd()).map_err(|errno| {
        let place = format!("`{}` in `{}`", mount_point.display(), root.display());
        Error::io(format!("show `{}` at {place}", source.display()), errno.into())
    })
}
