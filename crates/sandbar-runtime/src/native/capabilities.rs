//! Giving up capabilities, for good.

use std::io;

/// The highest number the kernel's sets have room for.
const MOST: u32 = 63;

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
/// Good for nothing in a user namespace. Whoever wants to look into a process must have all that it has.
const SYS_PACCT: u32 = 1 << 20;

/// What init needs to start and signal commands of other users, and to give them their terminals; and what no command ever
/// has.
const OF_INIT: u32 = CHOWN | KILL | SETGID | SETUID | SYS_PACCT;

/// What a root with rights of its own has: over files and users of its own user namespace. Nothing about mounts, networks,
/// devices, tracing or the kernel, and nothing that could be given to a file.
const OF_ROOT: u32 = CHOWN | DAC_OVERRIDE | FOWNER | FSETID | KILL | SETGID | SETUID;

const NOTHING: [Sets; 2] = [Sets { effective: 0, permitted: 0, inheritable: 0 }; 2];

/// Lets no program this process or its children execute have any capability, while the process keeps its own.
pub(crate) fn drop_for_programs() -> io::Result<()> {
    bound_programs(0);
    // SAFETY: a system call with numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// As [`drop_for_programs`], but programs of root, and those that make root of their user, have the rights of an
/// [own root](OF_ROOT). An error when more than these would be left.
pub(crate) fn keep_for_root() -> io::Result<()> {
    bound_programs(OF_ROOT);
    for capability in (0..=MOST).filter(|capability| !is_in(*capability, OF_ROOT)) {
        // SAFETY: a system call with numbers only. It answers -1 beyond the last one this kernel knows.
        if unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) } == 1 {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    Ok(())
}

/// Takes all but these capabilities from what programs can ever have.
fn bound_programs(kept: u32) {
    // SAFETY: system calls with numbers only.
    unsafe {
        for capability in (0..=MOST).filter(|capability| !is_in(*capability, kept)) {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                // Beyond the last one this kernel knows, or already without the right to drop.
                break;
            }
        }
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    }
}

const fn is_in(capability: u32, set: u32) -> bool {
    capability < u32::BITS && set & (1 << capability) != 0
}

/// Empties every set and forbids gaining anything by `exec`.
pub(crate) fn drop_all() -> io::Result<()> {
    drop_for_programs()?;
    clear()
}

/// Empties every set of this process but for what init itself needs, in its own user namespace.
pub(crate) fn clear_all_but_inits() -> io::Result<()> {
    let [_, high] = NOTHING;
    set([Sets { effective: OF_INIT, permitted: OF_INIT, inheritable: 0 }, high])
}

/// Empties every set of this process. Makes system calls on local memory only.
pub(crate) fn clear() -> io::Result<()> {
    set(NOTHING)
}

/// Becomes another user and group with the capabilities there are.
pub(crate) fn keep_as(user: u32) -> io::Result<()> {
    let header = Header { version: VERSION_3, pid: 0 };
    let mut sets = NOTHING;
    // SAFETY: system calls with numbers, and with local memory of the size the kernel expects. The caller has one thread,
    // which is all the raw calls change.
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
    let header = Header { version: VERSION_3, pid: 0 };
    // SAFETY: a system call with local memory of the size the kernel expects.
    let outcome = unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
