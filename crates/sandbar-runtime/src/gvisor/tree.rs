//! How the tree of a session gets into a container.
//!
//! A container that runs gets it *late*: the tree is mounted in the mount namespace of its gofer, which opens every file
//! for the container and so finds it there. One that is about to start, as from a checkpoint, is started in a mount
//! namespace of its own in which the tree is in place. Nothing is ever mounted where the host itself could see it, and so
//! nothing can be deleted through such a mount.

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
        MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_bind_recursive, mount_change, move_mount, open_tree,
    },
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

use super::{bundle::SESSION, host_process::HostProcess};

/// Mounts what is at `root`, with everything below, as the session of a running container.
pub(super) fn attach_late(root: &Path, gofer: &HostProcess) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, root, flags)?;
    attach(&tree, gofer)
}

fn attach(tree: &OwnedFd, gofer: &HostProcess) -> io::Result<()> {
    let pid = gofer.pid();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = openat(CWD, format!("/proc/{pid}/root/{SESSION}"), flags, Mode::empty())?;
    let namespace = File::open(format!("/proc/{pid}/ns/mnt"))?;
    // Asked after the two were opened: they are the gofer's, and not those of a later process with its number.
    if !gofer.is_alive()? {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the container has ended unexpectedly"));
    }
    std::thread::scope(|scope| {
        let entering = || {
            // SAFETY: this thread, which ends right after, stops sharing its working directory with the others.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Mount))?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(tree, "", &target, "", flags)?;
            Ok(())
        };
        let thread = std::thread::Builder::new().name("attach-tree".into()).spawn_scoped(scope, entering)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that mounts the tree panicked")))
    })
}

/// A mount namespace for a container about to start, with the tree in its place. Prepared before the fork.
#[derive(Debug)]
pub(super) struct OwnMounts {
    root: CString,
    place: CString,
    /// Maps for the user namespace an ordinary user needs to mount anything: of users and of groups.
    maps: Option<[CString; 2]>,
}

impl OwnMounts {
    /// `place` is the directory of the container that shows the tree at `root`.
    pub(super) fn new(root: &Path, place: &Path) -> io::Result<Self> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput);
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let maps = if user.is_root() {
            None
        } else {
            let map = |own: u32| CString::new(format!("0 {own} 1")).map_err(|_| io::ErrorKind::InvalidInput);
            Some([map(user.as_raw())?, map(group.as_raw())?])
        };
        Ok(Self { root: text(root)?, place: text(place)?, maps })
    }

    /// Makes the namespace and enters it. Between fork and exec: nothing here allocates.
    pub(super) fn enter(&self) -> io::Result<()> {
        let user = if self.maps.is_some() { UnshareFlags::NEWUSER } else { UnshareFlags::empty() };
        // SAFETY: the caller is a forked child with one thread.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS | user) }?;
        if let Some([users, groups]) = &self.maps {
            write(c"/proc/self/setgroups", c"deny")?;
            write(c"/proc/self/uid_map", users)?;
            write(c"/proc/self/gid_map", groups)?;
        }
        // Mounts of the host still arrive, none of ours goes back.
        mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        Ok(mount_bind_recursive(&*self.root, &*self.place)?)
    }
}

fn write(path: &CStr, text: &CStr) -> io::Result<()> {
    let file = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, text.to_bytes())?;
    Ok(())
}
