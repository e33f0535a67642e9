//! A mount namespace of one's own.

use rustix::{
    mount::{MountPropagationFlags, mount_change},
    thread::{UnshareFlags, unshare_unsafe},
};
use sandbar_core::{Error, Result};

/// Moves the calling thread into a private mount namespace: what the machine mounts later still shows up here, what is
/// mounted here shows up nowhere else and is gone when the last process in here is.
pub fn enter_private_mounts() -> Result<()> {
    let hint = "run as root, or in a container that may mount (CAP_SYS_ADMIN)";
    // SAFETY: only the mount namespace and the thread's own working directory become private. No other thread shares
    // file-system state that this call could pull from under it, since callers run it before they start another, or on a
    // thread made for it.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|error| Error::io("could not make a private mount namespace", error.into()).with_hint(hint))?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|error| Error::io("could not keep mounts private", error.into()).with_hint(hint))
}
