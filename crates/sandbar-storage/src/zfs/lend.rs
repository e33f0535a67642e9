//! Mounting a directory of this machine in a volume, read-only.

use std::{os::fd::AsFd as _, path::Path};

use rustix::mount::MountAttrFlags;
use sandbar_core::{Error, OwnerMap, Result};

use crate::{
    mount_attributes::{Extent, NOSUID_NODEV},
    mount_clone::MountClone,
    overlay::open_mount_point,
    world_readable::world_readable,
};

/// Mounts `source` read-only at `mount_point` inside the tree at `root`, with world-readable files
/// only and without its submounts. `empty` is an empty directory.
pub(super) fn lend(
    source: &Path,
    root: &Path,
    mount_point: &Path,
    empty: &Path,
    owners: Option<&OwnerMap>,
) -> Result<()> {
    let target = open_mount_point(root, mount_point)?;
    let flags = NOSUID_NODEV | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let clone = MountClone::of(source, Extent::Alone, flags, owners)?;
    // Before Linux 6.15 an overlay layer must be on an attached mount, which a clone is not.
    // Without owners, no clone is needed.
    let layer = if owners.is_some() {
        clone.path()
    } else {
        source.to_owned()
    };
    let shown = world_readable(&layer, empty)?.unwrap_or(clone);
    shown.attach(target.as_fd()).map_err(|errno| {
        let place = format!("`{}` in `{}`", mount_point.display(), root.display());
        Error::io(
            format!("show `{}` at {place}", source.display()),
            errno.into(),
        )
    })
}
