//! The two probes that need raw system calls.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The version of Landlock the kernel offers.
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
    if version < 0 { Err(io::Error::last_os_error()) } else { Ok(version) }
}

/// Starts a child in a user namespace of its own and waits for it. Only a process with one thread may change its user
/// namespace, hence the child.
pub(crate) fn child_in_user_namespace() -> io::Result<()> {
    let mut child = Command::new("/proc/self/exe");
    child.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { child.pre_exec(|| Ok(unshare_unsafe(UnshareFlags::NEWUSER)?)) };
    let status = child.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the child ended with {status}"))) }
}
