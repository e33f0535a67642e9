//! Mount operations shared by the set-up of a box.

#![expect(unsafe_code, reason = "rustix has no `setfsuid`")]

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
        fsconfig_create, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree, unmount,
    },
    process::{chdir, pivot_root},
};

/// Flags that clone a mount with everything mounted below it.
pub(super) const CLONE_RECURSIVE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE
    .union(OpenTreeFlags::OPEN_TREE_CLOEXEC)
    .union(OpenTreeFlags::AT_RECURSIVE);

/// Mount without set-user-id, device nodes and execution.
pub(super) const PLAIN_FILES: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Creates a detached mount of a new file system.
pub(super) fn file_system(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(context.as_fd(), *name, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// Creates a detached bind mount of a path.
pub(super) fn clone(directory: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    Ok(open_tree(
        directory,
        path,
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
    )?)
}

/// Attaches a detached mount at an open file or directory.
pub(super) fn attach(mount: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", target, "", flags)?)
}

/// Attaches a detached mount at a directory of the template.
pub(super) fn attach_at(mount: &OwnedFd, path: &str) -> io::Result<()> {
    Ok(move_mount(
        mount,
        "",
        CWD,
        path,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )?)
}

/// Makes `new_root` the root and unmounts the old one.
pub(super) fn pivot_into(new_root: &str) -> io::Result<()> {
    chdir(new_root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

/// Opens a directory of the session's tree to mount on, creating it if needed. Symbolic links are
/// not followed: a session must not choose where the host mounts.
pub(super) fn mount_point(
    root: &OwnedFd,
    name: &str,
    first_owner: Option<u32>,
) -> io::Result<OwnedFd> {
    create_directory(root, name, 0o755, first_owner)?;
    open_directory(root, name)
}

/// Opens a directory below another without following symbolic links.
pub(super) fn open_directory(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(
        parent,
        name,
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH,
    )?)
}

/// Creates a directory owned by the root of the box, if it does not exist. On an idmapped mount the
/// kernel refuses to create files for uids outside the map, such as the host's root.
pub(super) fn create_directory(
    root: &OwnedFd,
    name: &str,
    mode: u32,
    first_owner: Option<u32>,
) -> io::Result<()> {
    match rustix::fs::statat(root, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let owner = FileSystemOwner::take(first_owner);
    mkdirat(root, name, Mode::from_raw_mode(mode))?;
    // The umask may have cleared bits.
    rustix::fs::chmodat(
        root,
        name,
        Mode::from_raw_mode(mode),
        rustix::fs::AtFlags::empty(),
    )?;
    drop(owner);
    Ok(())
}

/// Guard that sets the file system uid and gid of this thread, which own the files it creates.
pub(super) struct FileSystemOwner {
    is_set: bool,
}

impl FileSystemOwner {
    pub(super) fn take(owner: Option<u32>) -> Self {
        if let Some(owner) = owner {
            Self::set(owner);
        }
        Self {
            is_set: owner.is_some(),
        }
    }

    fn set(owner: u32) {
        // SAFETY: changes the file system uid and gid of this thread, and nothing else.
        unsafe {
            libc::setfsgid(owner);
            libc::setfsuid(owner);
        }
    }
}

impl Drop for FileSystemOwner {
    fn drop(&mut self) {
        if self.is_set {
            Self::set(0);
        }
    }
}
