//! File leases, which make others wait when they open a file.

#![expect(unsafe_code, reason = "`F_SETLEASE` has no safe wrapper")]

use std::{fs::File, os::fd::AsRawFd as _};

/// Takes an exclusive lease on a file that only the caller has open. It is held until the file is
/// closed.
pub fn take_lease(file: &File) {
    // SAFETY: the kernel tells of a broken lease by SIGIO, which would end the process; ignoring it
    // touches no memory.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    // SAFETY: only numbers are passed, and the descriptor is open.
    let outcome = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    assert_eq!(
        outcome,
        0,
        "take a lease: {}",
        std::io::Error::last_os_error()
    );
}
