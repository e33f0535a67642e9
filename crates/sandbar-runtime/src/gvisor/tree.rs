//! Mounting the tree of a session in a container.
//!
//! For a running container, the tree is mounted in the mount namespace of its gofer, which opens
//! all files for the container. A container that is restored from a checkpoint is started in a new
//! mount namespace that already has the tree. Nothing is mounted in the host's own mount namespace,
//! so the host cannot delete files through such a mount by mistake.

#![expect(unsafe_code, reason = "`unshare` affects the whole thread")]

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    mount::{
        MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_bind_recursive, mount_change,
        move_mount, open_tree,
    },
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

use super::{bundle::SESSION, host_process::HostProcess};

/// Mounts the tree at `root`, with all mounts below it, in a running container.
pub(super) fn attach_to_running(root: &Path, gofer: &HostProcess) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, root, flags)?;
    attach(&tree, gofer)
}

fn attach(tree: &OwnedFd, gofer: &HostProcess) -> io::Result<()> {
    let pid = gofer.pid();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = openat(
        CWD,
        format!("/proc/{pid}/root/{SESSION}"),
        flags,
        Mode::empty(),
    )?;
    let namespace = File::open(format!("/proc/{pid}/ns/mnt"))?;
    // Checked after both were opened, so they belong to the gofer and not to a process that reuses
    // its pid.
    if !gofer.is_alive()? {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "container has ended unexpectedly",
        ));
    }
    std::thread::scope(|scope| {
        let entering = || {
            // SAFETY: unshares the working directory of this thread only, which ends right after.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&namespace),
                Some(LinkNameSpaceType::Mount),
            )?;
            let flags =
                MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(tree, "", &target, "", flags)?;
            Ok(())
        };
        let thread = std::thread::Builder::new()
            .name("attach-tree".into())
            .spawn_scoped(scope, entering)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("thread that mounts the tree panicked")))
    })
}

/// Mount namespace for a container to start in, with the tree mounted. Prepared before the fork.
#[derive(Debug)]
pub(super) struct StartMounts {
    root: CString,
    target: CString,
    /// Uid and gid map of the user namespace that an unprivileged host needs to mount.
    maps: Option<[CString; 2]>,
}

impl StartMounts {
    /// Prepares to mount the tree at `root` on `target`.
    pub(super) fn new(root: &Path, target: &Path) -> io::Result<Self> {
        let text = |path: &Path| {
            CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)
        };
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let maps = if user.is_root() {
            None
        } else {
            let map = |own: u32| {
                CString::new(format!("0 {own} 1")).map_err(|_| io::ErrorKind::InvalidInput)
            };
            Some([map(user.as_raw())?, map(group.as_raw())?])
        };
        Ok(Self {
            root: text(root)?,
            target: text(target)?,
            maps,
        })
    }

    /// Creates the namespace and enters it. Called between fork and exec, so it must not allocate.
    pub(super) fn enter(&self) -> io::Result<()> {
        let user = if self.maps.is_some() {
            UnshareFlags::NEWUSER
        } else {
            UnshareFlags::empty()
        };
        // SAFETY: the caller is a single-threaded forked child.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS | user) }?;
        if let Some([users, groups]) = &self.maps {
            write(c"/proc/self/setgroups", c"deny")?;
            write(c"/proc/self/uid_map", users)?;
            write(c"/proc/self/gid_map", groups)?;
        }
        // Mounts propagate from the host to here, but not back.
        mount_change(
            c"/",
            MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
        )?;
        Ok(mount_bind_recursive(&*self.root, &*self.target)?)
    }
}

fn write(path: &CStr, text: &CStr) -> io::Result<()> {
    let file = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, text.to_bytes())?;
    Ok(())
}
