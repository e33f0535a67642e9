//! Showing a directory of this machine inside a volume, read-only.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
};

use rustix::{
    fs::CWD,
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
};
use sandbar_core::{Error, Result};

use crate::overlay::open_mount_point;

/// Binds `source`, with everything mounted below it, read-only at `mount_point` inside the tree at `root`.
pub(super) fn lend(source: &Path, root: &Path, mount_point: &Path) -> Result<()> {
    let complain = |error: io::Error| {
        Error::io(format!("show `{}` at `{}` in `{}`", source.display(), mount_point.display(), root.display()), error)
    };
    let target = open_mount_point(root, mount_point)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, source, flags).map_err(|errno| complain(errno.into()))?;
    // Before it is attached: nobody ever sees it writable.
    make_read_only(tree.as_fd()).map_err(complain)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", &target, "", flags).map_err(|errno| complain(errno.into()))
}

/// Makes a detached mount tree read-only and cuts its ties: later mounts of the machine do not appear in it.
fn make_read_only(tree: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: rustix has no mount_setattr. The path is a C string, the attributes live until the call returns and
    // their size is passed with them; the kernel only reads both.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
