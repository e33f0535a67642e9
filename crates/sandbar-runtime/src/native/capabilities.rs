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
const KILL: u32 = 1 << 5;
const SETGID: u32 = 1 << 6;
const SETUID: u32 = 1 << 7;
/// Good for nothing in a user namespace. Whoever wants to look into a process must have all that it has.
const SYS_PACCT: u32 = 1 << 20;

/// What init needs to start and signal commands of other users, and to give them their terminals; and what no command ever
/// has.
const OF_INIT: u32 = CHOWN | KILL | SETGID | SETUID | SYS_PACCT;

const NOTHING: [Sets; 2] = [Sets { effective: 0, permitted: 0, inheritable: 0 }; 2];

/// Lets no program this process or its children execute have any capability, while the process keeps its own.
pub(crate) fn drop_for_programs() -> io::Result<()> {
    // SAFETY: system calls with numbers only.
    unsafe {
        for capability in 0..=MOST {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                // Beyond the last one this kernel knows, or already without the right to drop.
                break;
            }
        }
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Empties every set and forbids gaining anything by `exec`.
pub(crate) fn drop_all() -> io::Result<()> {
    drop_for_programs()?;
    clear()
}

/// As [`drop_all`], but for what init itself needs, in its own user namespace.
pub(crate) fn drop_all_but_inits() -> io::Result<()> {
    drop_for_programs()?;
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
