//! A mount namespace of the test's own.

use rustix::{
    mount::{MountPropagationFlags, mount_change},
    thread::{UnshareFlags, unshare_unsafe},
};

/// Moves the calling thread, and every thread it starts from now on, into a mount namespace of its
/// own. What is mounted there disappears with the process.
#[expect(unsafe_code, reason = "unshare can break what other threads rely on")]
pub fn private_mounts() {
    // SAFETY: a mount namespace changes no descriptors and no memory; only this thread's view of
    // mounts is replaced.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .unwrap();
}
