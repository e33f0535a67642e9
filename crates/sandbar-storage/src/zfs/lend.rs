//! Showing a directory of this machine inside a volume, read-only.

use std::{os::fd::AsFd as _, path::Path};

use rustix::mount::MountAttrFlags;
use sandbar_core::{Error, OwnerMap, Result};

use crate::{
    mount_attributes::{Extent, HARMLESS},
    mount_clone::MountClone,
    overlay::open_mount_point,
    screen::screen,
};

/// Shows `source` read-only at `mount_point` inside the tree at `root`, without what others may not read. It is never
/// writable, and what is mounted below `source` does not appear in it. `empty` is an empty directory.
pub(super) fn lend(
    source: &Path,
    root: &Path,
    mount_point: &Path,
    empty: &Path,
    owners: Option<&OwnerMap>,
) -> Result<()> {
    let target = open_mount_point(root, mount_point)?;
    let flags = HARMLESS | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let clone = MountClone::of(source, Extent::Alone, flags, owners)?;
    // A layer must be attached before Linux 6.15, which a copy is not; without owners none is needed.
    let layer = if owners.is_some() { clone.path() } else { source.to_owned() };
    let shown = screen(&layer, empty)?.unwrap_or(clone);
    shown.attach(target.as_fd()).map_err(|errno| {
        let place = format!("`{}` in `{}`", mount_point.display(), root.display());
        Error::io(format!("show `{}` at {place}", source.display()), errno.into())
    })
}
