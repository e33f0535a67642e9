//! Landlock: a second lock on what namespaces and seccomp forbid already.
//!
//! Nobody in a box may make device nodes, change mounts (no process with a Landlock domain may), or reach signals and
//! abstract sockets outside the box.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

use rustix::fs::{CWD, Mode, OFlags, openat};

const REFER: u64 = 1 << 13;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const SCOPE_SIGNAL: u64 = 1 << 1;
const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

#[repr(C)]
struct Ruleset {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// The version of Landlock this kernel has; 0 when it has none.
pub(crate) fn version() -> i32 {
    // SAFETY: asks for a number; no memory is involved.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<Ruleset>(), 0usize, CREATE_RULESET_VERSION)
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Restricts this process and all it starts. Nothing where the kernel has no Landlock. `no_new_privs` must be set,
/// or the caller have rights over its user namespace.
pub(crate) fn restrict() -> io::Result<()> {
    let version = version();
    if version < 2 {
        // Version 1 would forbid renaming between directories.
        return Ok(());
    }
    let scoped = if version >= 6 { SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL } else { 0 };
    let rules = Ruleset { handled_access_fs: REFER | MAKE_CHAR | MAKE_BLOCK, handled_access_net: 0, scoped };
    // The structure grew with the versions, and a kernel takes no field it does not know.
    let size = match version {
        2 | 3 => 8,
        4 | 5 => 16,
        _ => size_of::<Ruleset>(),
    };
    // SAFETY: the kernel reads `size` bytes of a structure at least that large and returns a descriptor.
    let ruleset = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const rules, size, 0u32) };
    let ruleset = i32::try_from(ruleset).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let ruleset = unsafe { OwnedFd::from_raw_fd(ruleset) };
    // Moving files between directories is forbidden unless allowed; it is allowed everywhere.
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let beneath = PathBeneath { allowed_access: REFER, parent_fd: root.as_raw_fd() };
    // SAFETY: the rule lives through the call.
    let added = unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), RULE_PATH_BENEATH, &raw const beneath, 0u32)
    };
    // SAFETY: a number and a descriptor of ours.
    if added != 0 || unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
