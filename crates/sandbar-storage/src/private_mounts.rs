//! Private mount namespaces.

#![expect(unsafe_code, reason = "`unshare` affects the whole thread")]

use rustix::{
    mount::{MountPropagationFlags, mount_change},
    thread::{UnshareFlags, unshare_unsafe},
};
use sandbar_core::{Error, Result};

/// Moves the calling thread into a new mount namespace. Later mounts of the machine propagate into
/// it. Its own mounts do not propagate out, and disappear with its last process.
pub fn enter_private_mounts() -> Result<()> {
    let hint = "run as root, or in a container that may mount (CAP_SYS_ADMIN)";
    // SAFETY: only the mount namespace and the thread's own working directory become private. No
    // other thread shares file-system state that this call could pull from under it, since callers
    // run it before they start another, or on a thread made for it.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(|error| {
        Error::io("create a private mount namespace", error.into()).with_hint(hint)
    })?;
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )
    .map_err(|error| Error::io("make mounts private", error.into()).with_hint(hint))
}
