//! Mount namespace of `zfs` commands. OpenZFS mounts in the mount namespace of the process that
//! runs `zfs mount`. zfs-fuse mounts in the namespace of its daemon, and its `zfs unmount` works
//! only there. So commands run in the daemon's namespace, and mounts reach the host, which has its
//! own, by propagation.

#![expect(unsafe_code, reason = "`unshare` affects the whole thread")]

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::OnceLock,
    thread,
};

use rustix::{
    mount::{MountPropagationFlags, mount_change},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};
use sandbar_core::{Error, Result};

use super::{command::Tools, layout::Layout, mount_table::MountTable};
use crate::ZfsConfig;

/// Namespace of this process when it called [`share_mounts`].
static DAEMON_NAMESPACE: OnceLock<OwnedFd> = OnceLock::new();

/// Prepares the process for leaving its mount namespace. Call it before `unshare(CLONE_NEWNS)`, and
/// afterwards make `/` a recursive **slave** (`MS_SLAVE | MS_REC`), not private: then later mounts
/// of the zfs-fuse daemon propagate into the new namespace. A no-op with OpenZFS.
pub fn share_mounts(config: &ZfsConfig) -> Result<()> {
    if is_in_kernel() {
        return Ok(());
    }
    let tools = Tools::find()?;
    let layout = Layout::prepare(&tools, config)?;
    let table = MountTable::read()?;
    for (dataset, directory) in [
        (&layout.bases, &layout.bases_directory),
        (&layout.sessions, &layout.sessions_directory),
    ] {
        if !table.shows(dataset, directory) {
            return Err(Error::internal(format!(
                "dataset `{dataset}` is not mounted at `{}`",
                directory.display()
            ))
            .with_hint("start the host in the mount namespace of the zfs-fuse daemon"));
        }
        mount_change(directory, MountPropagationFlags::SHARED).map_err(|errno| {
            Error::io(
                format!("share mounts below `{}`", directory.display()),
                errno.into(),
            )
        })?;
    }
    let namespace = File::open("/proc/thread-self/ns/mnt")
        .map_err(|error| Error::io("open the mount namespace", error))?;
    // A second call comes from the same namespace and keeps the first descriptor.
    let _ = DAEMON_NAMESPACE.set(namespace.into());
    Ok(())
}

/// Returns whether ZFS is in the kernel, rather than in a daemon.
pub(super) fn is_in_kernel() -> bool {
    Path::new("/dev/zfs").exists()
}

/// Runs `action`, which starts a process, in the namespace recorded by [`share_mounts`], else in
/// the current one.
pub(super) fn in_daemon_namespace<T: Send>(
    action: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let Some(namespace) = DAEMON_NAMESPACE.get() else {
        return action();
    };
    // On a separate thread, because `setns` changes the thread for good.
    let run = || -> io::Result<T> {
        // SAFETY: only the working directory and umask are unshared, no descriptors; this thread is
        // ours and ends here.
        unsafe { unshare_unsafe(UnshareFlags::FS) }?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
        action()
    };
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("sandbar-zfs".into())
            .spawn_scoped(scope, run)?;
        worker
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that runs zfs panicked")))
    })
}
