//! Probes that need raw system calls.

#![expect(
    unsafe_code,
    reason = "raw system calls and `pre_exec` have no safe wrapper"
)]

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Returns the Landlock ABI version of the kernel.
pub(crate) fn landlock_version() -> io::Result<i64> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes a null attribute of size 0 and only returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    if version < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(version)
    }
}

/// Runs a child in a new user namespace. Only a single-threaded process may unshare its user
/// namespace, hence the child.
pub(crate) fn child_in_user_namespace() -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "starts a copy of itself")]
    let mut child = Command::new("/proc/self/exe");
    child
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { child.pre_exec(|| Ok(unshare_unsafe(UnshareFlags::NEWUSER)?)) };
    let status = child.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("the child ended with {status}")))
    }
}
