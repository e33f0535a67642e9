//! Read-only views of host directories that show only world-readable files.
//!
//! Programs and libraries of the machine are lent to sandboxes. Root of a sandbox owns the lent
//! files in its ID-mapped view, because `sudo` and package managers need that, and could read files
//! that only the machine's root may read. A read-only overlay in between prevents it: overlayfs
//! accesses the lower files with the credentials of its mounter, and the mounter here owns no file,
//! is in no group and has no file capability. Only the permissions of "other" are left. This holds
//! for files created or changed later, too.

use std::{
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::Once,
};

use rustix::{
    fs::{CWD, Mode, OFlags, fstatfs, openat},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
        fsopen,
    },
};
use sandbar_core::{Error, Result};
use sandbar_tree::ActingUnprivileged;

use crate::{mount_attributes::NOSUID_NODEV, mount_clone::MountClone};

const OVERLAY_MAGIC: i64 = 0x794C_7630;

/// Returns a detached mount of `lent` that shows only world-readable files. `empty` is an empty,
/// world-accessible directory: an overlay without an upper layer needs two lower ones.
///
/// `None` when `lent` is on overlayfs itself. The kernel limits the stacking depth to two, and the
/// session's own overlay is the second.
pub(crate) fn world_readable(lent: &Path, empty: &Path) -> Result<Option<MountClone>> {
    static WARNED: Once = Once::new();
    let complain = |errno: Errno| {
        Error::io(
            format!("mount the readable part of `{}`", lent.display()),
            errno.into(),
        )
    };
    let open = |path: &Path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty()).map_err(complain)
    };
    // By descriptor: the parent directories may not be accessible to others.
    let (lent, empty) = (open(lent)?, open(empty)?);
    if fstatfs(&lent).map_err(complain)?.f_type == OVERLAY_MAGIC {
        WARNED.call_once(|| {
            tracing::warn!("root of sandboxes over the `host` base can read all files of `/usr` and `/opt`: these are on overlayfs, which cannot be stacked any deeper");
        });
        return Ok(None);
    }
    let path = |directory: &OwnedFd| format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
    let layers = format!("{}:{}", path(&lent), path(&empty));
    let mount = || -> rustix::io::Result<OwnedFd> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "source", "sandbar-lent")?;
        fsconfig_set_string(&context, "lowerdir", layers.as_str())?;
        fsconfig_create(&context)?;
        fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            NOSUID_NODEV | MountAttrFlags::MOUNT_ATTR_RDONLY,
        )
    };
    let unprivileged = ActingUnprivileged::start()?;
    let mounted = mount().map_err(complain);
    drop(unprivileged);
    mounted.map(|mounted| Some(MountClone::from(mounted)))
}

/// Creates the empty directory of a store.
pub(crate) fn empty_directory(parent: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;

    let path = parent.join(".empty");
    let complain = |error| Error::io(format!("make directory `{}`", path.display()), error);
    match std::fs::create_dir(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(complain(error)),
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(complain)?;
    Ok(path)
}
