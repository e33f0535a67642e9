//! Landlock restrictions of a box, in addition to namespaces and seccomp.
//!
//! Processes in a box cannot create device nodes, change mounts (the kernel forbids that to any
//! process in a Landlock domain), signal processes outside the box, or connect to abstract unix
//! sockets outside it.

#![expect(unsafe_code, reason = "Landlock has no safe wrapper")]

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use rustix::fs::{CWD, Mode, OFlags, openat};

const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
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

/// Returns the Landlock ABI version of this kernel, or 0 if it has no Landlock.
pub(crate) fn version() -> i32 {
    // SAFETY: queries a number and passes no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<Ruleset>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Restricts this process and all its descendants. Does nothing before ABI version 2. Requires
/// no_new_privs, or CAP_SYS_ADMIN in the caller's user namespace.
pub(crate) fn restrict() -> io::Result<()> {
    let version = version();
    if version < 2 {
        // Version 1 always denies renames between directories.
        return Ok(());
    }
    // From version 2 on, renames between directories are denied unless a rule allows them. Allow
    // them below the root.
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let rules = Ruleset {
        handled_access_fs: REFER | MAKE_CHAR | MAKE_BLOCK,
        handled_access_net: 0,
        scoped: scoped(version),
    };
    install(version, &rules, &[root.as_fd()], REFER)
}

/// Restricts this process to reading what is below `readable`: it can open nothing else, and
/// neither create, change nor execute a file. Does nothing where the kernel has no Landlock.
/// Requires no_new_privs, or CAP_SYS_ADMIN in the caller's user namespace.
pub(crate) fn restrict_to_reading(readable: &[BorrowedFd<'_>]) -> io::Result<()> {
    let version = version();
    // Every access to files that the version knows.
    let handled_access_fs = match version {
        0 => return Ok(()),
        1 => (1 << 13) - 1,
        2 => (1 << 14) - 1,
        3 | 4 => (1 << 15) - 1,
        _ => (1 << 16) - 1,
    };
    let rules = Ruleset {
        handled_access_fs,
        // TCP: bind and connect.
        handled_access_net: if version >= 4 { 0b11 } else { 0 },
        scoped: scoped(version),
    };
    install(version, &rules, readable, READ_FILE | READ_DIR)
}

fn scoped(version: i32) -> u64 {
    if version >= 6 {
        SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL
    } else {
        0
    }
}

/// Enters a domain with `rules`, except for `allowed` below the given descriptors.
fn install(
    version: i32,
    rules: &Ruleset,
    beneath: &[BorrowedFd<'_>],
    allowed: u64,
) -> io::Result<()> {
    // The structure grew with the ABI versions, and kernels reject fields they do not know.
    let size = match version {
        ..=3 => 8,
        4 | 5 => 16,
        _ => size_of::<Ruleset>(),
    };
    // SAFETY: the kernel reads `size` bytes of a structure at least that large and returns a
    // descriptor.
    let ruleset = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::from_ref(rules),
            size,
            0u32,
        )
    };
    let ruleset = i32::try_from(ruleset)
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just returned this descriptor, which nothing else owns.
    let ruleset = unsafe { OwnedFd::from_raw_fd(ruleset) };
    for directory in beneath {
        let beneath = PathBeneath {
            allowed_access: allowed,
            parent_fd: directory.as_raw_fd(),
        };
        // SAFETY: the rule outlives the call.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                ruleset.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const beneath,
                0u32,
            )
        };
        if added != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: the call takes a number and a descriptor we own.
    let restricted =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    if restricted != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
