//! Mounting and unmounting overlays and devices.
//!
//! Mounts are created in the calling thread's mount namespace. The host unshares its own before it
//! starts, so that all mounts disappear with it, also after `kill -9`.

use std::{
    ffi::OsString,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
        fsconfig_set_string, fsmount, fsopen, mount, move_mount, unmount,
    },
};
use sandbar_core::{Error, Result};

use crate::mount_attributes::NOSUID_NODEV;

/// Directories of an overlay: a read-only lower, a private writable upper, and its work directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlay<'a> {
    pub(crate) lower: &'a Path,
    pub(crate) upper: &'a Path,
    pub(crate) work: &'a Path,
}

/// Mounts an overlay on the directory `target` is open on. It takes a descriptor, because the path
/// to a nested mount point leads through files of the session.
///
/// `index`, `metacopy` and `redirect_dir` are off because an upper is snapshotted, forked and
/// compared on its own: it must hold whole files, and no references to inodes of the upper it was
/// copied from.
pub(crate) fn mount_overlay(overlay: Overlay<'_>, target: BorrowedFd<'_>) -> Result<()> {
    let attempt = || -> rustix::io::Result<()> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        let fd = &context;
        fsconfig_set_string(fd, "source", "sandbar")?;
        fsconfig_set_string(fd, "lowerdir", escape(overlay.lower))?;
        fsconfig_set_string(fd, "upperdir", escape(overlay.upper))?;
        fsconfig_set_string(fd, "workdir", escape(overlay.work))?;
        for option in ["index", "metacopy", "redirect_dir"] {
            match fsconfig_set_string(fd, option, "off") {
                // A kernel without the feature does not know the option.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        fsconfig_create(fd)?;
        let mounted = fsmount(fd, FsMountFlags::FSMOUNT_CLOEXEC, NOSUID_NODEV)?;
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&mounted, "", target, "", flags)
    };
    attempt().map_err(|errno| {
        Error::io(
            format!("mount an overlay with upper `{}`", overlay.upper.display()),
            errno.into(),
        )
    })
}

/// Opens the mount point `below` inside `root`, creating it if a session has removed it. Symbolic
/// links are not followed: a session must not choose where the host mounts.
pub(crate) fn open_mount_point(root: &Path, below: &Path) -> Result<OwnedFd> {
    let complain = |errno: Errno| {
        Error::io(
            format!(
                "open mount point `{}` in `{}`",
                below.display(),
                root.display()
            ),
            errno.into(),
        )
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let root_fd = openat(CWD, root, flags, Mode::empty()).map_err(complain)?;
    let relative = below.strip_prefix("/").unwrap_or(below);
    if relative.as_os_str().is_empty() {
        return Ok(root_fd);
    }
    match openat2(&root_fd, relative, flags, Mode::empty(), resolve) {
        Err(Errno::NOENT) => {
            mkdirat(&root_fd, relative, Mode::from_raw_mode(0o755)).map_err(complain)?;
            openat2(&root_fd, relative, flags, Mode::empty(), resolve).map_err(complain)
        }
        opened => opened.map_err(complain),
    }
}

/// Escapes `\` and `:`, which overlayfs interprets in its directory options.
fn escape(path: &Path) -> OsString {
    let mut escaped = Vec::with_capacity(path.as_os_str().len());
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'\\' | b':') {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    OsString::from_vec(escaped)
}

/// Mounts a block device.
pub(crate) fn mount_device(device: &Path, target: &Path, kind: &str, options: &str) -> Result<()> {
    let options = std::ffi::CString::new(options)
        .map_err(|_| Error::internal("mount options contain NUL"))?;
    mount(
        device,
        target,
        kind,
        MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV,
        options.as_c_str(),
    )
    .map_err(|errno| {
        Error::io(
            format!(
                "mount `{}` ({kind}) at `{}`",
                device.display(),
                target.display()
            ),
            errno.into(),
        )
    })
}

/// Detaches everything mounted at `target` and below it. No mount is success.
pub(crate) fn detach(target: &Path) -> Result<()> {
    loop {
        match unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // Several mounts can be stacked on one mount point.
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(errno) => {
                return Err(Error::io(
                    format!("unmount `{}`", target.display()),
                    errno.into(),
                ));
            }
        }
    }
}
