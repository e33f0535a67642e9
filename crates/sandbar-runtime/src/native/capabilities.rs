//! Irrevocable dropping of capabilities.

#![expect(unsafe_code, reason = "`capset` and `prctl` have no safe wrapper")]

use std::io;

/// Highest capability number that the kernel's 64-bit sets can hold.
const MAX_CAPABILITY: u32 = 63;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

const CHOWN: u32 = 1;
const DAC_OVERRIDE: u32 = 1 << 1;
const FOWNER: u32 = 1 << 3;
const FSETID: u32 = 1 << 4;
const KILL: u32 = 1 << 5;
const SETGID: u32 = 1 << 6;
const SETUID: u32 = 1 << 7;
/// `CAP_SYS_PACCT` grants nothing inside a user namespace. Init keeps it so that its capability set
/// is never a subset of a command's; the kernel's ptrace access check then denies commands access
/// to init.
const SYS_PACCT: u32 = 1 << 20;

/// Capabilities of init: to start commands as other users, signal them and give them their
/// terminals; and [`SYS_PACCT`], which no command ever has.
const INIT_SET: u32 = CHOWN | KILL | SETGID | SETUID | SYS_PACCT;

/// Capabilities of a root with [`RootRights::Own`](sandbar_core::RootRights): over files and users
/// of its own user namespace. None for mounts, networks, devices, tracing or the kernel, and not
/// `CAP_SETFCAP`, which could attach capabilities to files.
const ROOT_SET: u32 = CHOWN | DAC_OVERRIDE | FOWNER | FSETID | KILL | SETGID | SETUID;

const DAC_READ_SEARCH: u32 = 1 << 2;
const SYS_ADMIN: u32 = 1 << 21;
const READING_SET: u32 = DAC_READ_SEARCH | SYS_ADMIN;

const EMPTY_SETS: [Sets; 2] = [Sets {
    effective: 0,
    permitted: 0,
    inheritable: 0,
}; 2];

/// Empties the bounding and ambient sets and sets no_new_privs: no program that this process or its
/// descendants execute can have a capability. The process keeps its own permitted set.
pub(crate) fn drop_for_programs() -> io::Result<()> {
    limit_bounding_set(0);
    // SAFETY: the call takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Limits the bounding set to [`ROOT_SET`] and empties the ambient set: programs run as the box's
/// root, or set-user-id to it, get at most these capabilities. `EPERM` if the bounding set still
/// has others.
pub(crate) fn keep_for_root() -> io::Result<()> {
    limit_bounding_set(ROOT_SET);
    for capability in (0..=MAX_CAPABILITY).filter(|capability| !is_in(*capability, ROOT_SET)) {
        // SAFETY: the call takes numbers only. It returns -1 for a capability this kernel does not
        // have.
        if unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) } == 1 {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    Ok(())
}

/// Drops all capabilities except `kept` from the bounding set, and empties the ambient set.
fn limit_bounding_set(kept: u32) {
    // SAFETY: the calls take numbers only.
    unsafe {
        for capability in (0..=MAX_CAPABILITY).filter(|capability| !is_in(*capability, kept)) {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                // The kernel has no further capabilities, or CAP_SETPCAP is already dropped.
                break;
            }
        }
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            0,
            0,
            0,
        );
    }
}

const fn is_in(capability: u32, set: u32) -> bool {
    capability < u32::BITS && set & (1 << capability) != 0
}

/// Empties every capability set and sets no_new_privs.
pub(crate) fn drop_all() -> io::Result<()> {
    drop_for_programs()?;
    clear()
}

/// Keeps only what reading every file of a session takes: `CAP_DAC_READ_SEARCH`, and
/// `CAP_SYS_ADMIN` without which the kernel hides the `trusted` attributes that overlayfs keeps its
/// marks in. Of the latter, the worker's system call filter leaves nothing else. Sets no_new_privs.
pub(crate) fn keep_for_reading() -> io::Result<()> {
    drop_for_programs()?;
    let mut sets = EMPTY_SETS;
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    // SAFETY: the call writes local memory of the size the kernel expects.
    if unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let [low, high] = &mut sets;
    low.permitted &= READING_SET;
    low.effective &= READING_SET;
    (low.inheritable, *high) = (0, EMPTY_SETS[1]);
    set(sets)
}

/// Reduces the permitted and effective sets of this process to [`INIT_SET`].
pub(crate) fn clear_except_init() -> io::Result<()> {
    let [_, high] = EMPTY_SETS;
    set([
        Sets {
            effective: INIT_SET,
            permitted: INIT_SET,
            inheritable: 0,
        },
        high,
    ])
}

/// Empties the permitted, effective and inheritable sets of this process. Safe between clone and
/// exec: it allocates nothing.
pub(crate) fn clear() -> io::Result<()> {
    set(EMPTY_SETS)
}

/// Switches uid and gid to `user` and keeps the capabilities the process has.
pub(crate) fn switch_user_keeping(user: u32) -> io::Result<()> {
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let mut sets = EMPTY_SETS;
    // SAFETY: the calls take numbers, and local memory of the size the kernel expects. The raw
    // calls change the calling thread only, and the caller has one thread.
    let outcomes = unsafe {
        [
            libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()),
            libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0).into(),
            libc::syscall(libc::SYS_setresgid, user, user, user),
            libc::syscall(libc::SYS_setresuid, user, user, user),
        ]
    };
    if outcomes.iter().any(|&outcome| outcome != 0) {
        return Err(io::Error::last_os_error());
    }
    set(sets)
}

fn set(sets: [Sets; 2]) -> io::Result<()> {
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    // SAFETY: the call reads local memory of the size the kernel expects.
    let outcome = unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
