//! Kernel objects without a path: keys, shared memory, message queues.
#![expect(unsafe_code, reason = "none of these has another interface")]

use std::{ffi::CString, io, ptr};

/// Puts a key into a new session keyring of the calling thread, which everything it starts
/// inherits, and returns its serial number. It goes with them.
pub(super) fn add_key(name: &str, content: &str) -> io::Result<i64> {
    let name = CString::new(name)?;
    // SAFETY: without a name the kernel reads nothing.
    let joined = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            libc::KEYCTL_JOIN_SESSION_KEYRING,
            ptr::null::<u8>(),
        )
    };
    check(joined)?;
    // SAFETY: all pointers are to living values, the content with its length.
    let key = check(unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            name.as_ptr(),
            content.as_ptr(),
            content.len(),
            libc::KEY_SPEC_SESSION_KEYRING,
        )
    })?;
    // Any process that reaches it may use it: the boundary must hold, not its mode.
    // SAFETY: numbers only.
    check(unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_SETPERM, key, 0x3f3f_3f3f_u32) })?;
    Ok(key)
}

/// A shared memory segment that every process of its IPC namespace may attach. Removed with this
/// process.
pub(super) fn share_memory(content: &str) -> io::Result<i64> {
    const SIZE: usize = 4096;
    assert!(content.len() < SIZE);
    // SAFETY: numbers only.
    let segment = unsafe { libc::shmget(libc::IPC_PRIVATE, SIZE, libc::IPC_CREAT | 0o666) };
    check(i64::from(segment))?;
    // SAFETY: the kernel chooses a place where nothing is.
    let place = unsafe { libc::shmat(segment, ptr::null(), 0) };
    if place.addr() == usize::MAX {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the place is SIZE bytes long and only ours to write. Marked for removal, the segment
    // lives as long as this process.
    unsafe {
        ptr::copy_nonoverlapping(content.as_ptr(), place.cast(), content.len());
        libc::shmctl(segment, libc::IPC_RMID, ptr::null_mut());
    }
    Ok(i64::from(segment))
}

/// A message queue that every process may open. Removed with the IPC namespace.
pub(super) fn make_queue(name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    // SAFETY: the name is a C string; no attributes are given.
    let queue = unsafe {
        libc::mq_open(
            name.as_ptr(),
            libc::O_CREAT | libc::O_RDWR,
            0o666,
            ptr::null_mut::<libc::mq_attr>(),
        )
    };
    check(i64::from(queue)).map(drop)
}

/// Puts a variable into the environment of this process.
pub(super) fn set_variable(name: &str, value: &str) {
    // SAFETY: tests read and change the environment through the standard library only, which takes
    // turns.
    unsafe { std::env::set_var(name, value) };
}

fn check(result: i64) -> io::Result<i64> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
