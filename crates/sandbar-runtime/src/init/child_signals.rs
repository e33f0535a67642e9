//! Signal set-up of init.

#![expect(
    unsafe_code,
    reason = "`sigaction` and `signalfd` have no safe wrapper"
)]

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
    ptr,
};

/// Blocks all signals and returns a signalfd that is readable after a child has ended. Also resets
/// all signal dispositions, so that commands inherit the defaults.
pub(super) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: system calls on local memory; init is single-threaded.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=64 {
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let signals = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if signals < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(OwnedFd::from_raw_fd(signals))
        }
    }
}

/// Consumes a pending signal.
pub(super) fn consume(signals: &OwnedFd) {
    let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
    let _ = rustix::io::read(signals, &mut info);
}
