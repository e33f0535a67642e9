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
    // SAFETY: a system call with local memory of the size the kernel expects.
    unsafe {
        let header = Header { version: VERSION_3, pid: 0 };
        let none = [Sets { effective: 0, permitted: 0, inheritable: 0 }; 2];
        if libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
