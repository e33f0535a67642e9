//! What the machine lends to a sandbox: programs and libraries, and nothing that other users may not read.
//!
//! Root of a sandbox owns the lent files, since `sudo` and package managers need that, and so it would read what the
//! machine's root keeps for itself. A read-only overlay in between prevents it: overlayfs reaches the files below in the name
//! of its mounter, and the mounter here owns no file, is in no group and has no capability over files. What is left are
//! the rights of others. That holds for files that appear or change later too.

use std::{
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::Once,
};

use rustix::{
    fs::{CWD, Mode, OFlags, fstatfs, openat},
    io::Errno,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen},
};
use sandbar_core::{Error, Result};

use crate::{acting_owner::ActingStranger, mount_attributes::HARMLESS, mount_clone::MountClone};

const OVERLAY_MAGIC: i64 = 0x794C_7630;

/// Shows the directory `lent` without what others may not read, as a mount that is attached nowhere yet. `empty` is an empty
/// directory others may enter: an overlay without a writable layer has at least two.
///
/// `None` when `lent` is an overlay itself. The kernel stacks two, and the session's own is the second.
pub(crate) fn screen(lent: &Path, empty: &Path) -> Result<Option<MountClone>> {
    static SAID: Once = Once::new();
    let complain = |errno: Errno| Error::io(format!("screen `{}`", lent.display()), errno.into());
    let open = |path: &Path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty()).map_err(complain)
    };
    // By descriptor: the way to either may be closed to others.
    let (lent, empty) = (open(lent)?, open(empty)?);
    if fstatfs(&lent).map_err(complain)?.f_type == OVERLAY_MAGIC {
        SAID.call_once(|| {
            tracing::warn!("files of `/usr` and `/opt` that only root may read are shown in sandboxes over the `host` base: they are on overlayfs, which does not stack any deeper");
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
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, HARMLESS | MountAttrFlags::MOUNT_ATTR_RDONLY)
    };
    let stranger = ActingStranger::start()?;
    let mounted = mount().map_err(complain);
    drop(stranger);
    mounted.map(|mounted| Some(MountClone::from(mounted)))
}

/// Makes the empty directory of a store.
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
