//! The mount namespace of a session: its tree as `/`, with `/proc` and `/dev`, and none of the host's other mounts.

use std::{fs::File, io, os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{CWD, Mode},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind_recursive,
        mount_change, move_mount, open_tree, unmount,
    },
    process::{chdir, pivot_root},
    thread::{UnshareFlags, unshare_unsafe},
};

/// Makes the namespace on a thread of its own. It lives as long as the handle or a process in it.
///
/// A new namespace begins as a copy of the host's, with the mounts of every other session in it; pivoting and detaching
/// the old root lets go of them, or they would be busy for as long as a command of this session runs.
pub(crate) fn create(root: &Path) -> io::Result<OwnedFd> {
    on_own_thread(|| {
        isolate()?;
        let devices = open_tree(
            CWD,
            "/dev",
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE,
        )?;
        let handle = File::open("/proc/thread-self/ns/mnt")?;
        mount_bind_recursive(root, root)?;
        chdir(root)?;
        pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        chdir("/")?;
        // Mounted after the pivot, so that a link the session left in their place leads nowhere else.
        for directory in ["/proc", "/dev"] {
            match rustix::fs::mkdir(directory, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
        move_mount(&devices, "", CWD, "/dev", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        Ok(handle.into())
    })
}

/// Whether this process may make mount namespaces, by making one.
pub(crate) fn probe() -> io::Result<()> {
    on_own_thread(isolate)
}

fn isolate() -> io::Result<()> {
    // SAFETY: only this thread, which ends right after, leaves the shared namespace and file system state.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    Ok(())
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("mount-namespace".into()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the mount namespace thread panicked")))
    })
}
