//! The signals of a terminal, where the kernel does not send them: gVisor knows neither the keys that interrupt nor that a
//! change of size is to be told.
//!
//! Who is in the foreground, only members of the terminal's session may ask. So a process of ours stays in the session
//! beside the command and passes signals on.

use std::{
    io,
    os::fd::{AsFd, OwnedFd, RawFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    pipe::{PipeFlags, pipe_with},
    pty::{OpenptFlags, openpt, ptsname, unlockpt},
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr},
};

/// Keys that are signals, and those signals.
const KEYS: [(SpecialCodeIndex, i32); 3] = [
    (SpecialCodeIndex::VINTR, libc::SIGINT),
    (SpecialCodeIndex::VQUIT, libc::SIGQUIT),
    (SpecialCodeIndex::VSUSP, libc::SIGTSTP),
];

/// Our end of the conversation with the process in the session.
#[derive(Debug)]
pub(super) struct TerminalSignals {
    messenger: OwnedFd,
}

impl TerminalSignals {
    /// Returns what the process in the session listens to.
    pub(super) fn open() -> io::Result<(Self, OwnedFd)> {
        let (listener, messenger) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok((Self { messenger }, listener))
    }

    /// Sends a signal to whoever is in the foreground.
    pub(super) fn send(&self, signal: i32) {
        if let Ok(byte) = u8::try_from(signal) {
            let _ = rustix::io::write(&self.messenger, &[byte]);
        }
    }

    /// Takes the keys that are signals out of what was typed, and shows them as the terminal would.
    pub(super) fn take_keys(&self, terminal: &OwnedFd, typed: &mut Vec<u8>, shown: &mut Vec<u8>) {
        let Ok(modes) = tcgetattr(terminal) else { return };
        if !modes.local_modes.contains(LocalModes::ISIG) {
            return;
        }
        typed.retain(|&byte| {
            let Some(signal) = signal_of(&modes, byte) else { return true };
            if modes.local_modes.contains(LocalModes::ECHO) {
                shown.extend_from_slice(&[b'^', byte ^ 0x40]);
            }
            self.send(signal);
            false
        });
    }
}

fn signal_of(modes: &Termios, byte: u8) -> Option<i32> {
    // Zero stands for no key at all.
    KEYS.into_iter().find(|(key, _)| byte != 0 && modes.special_codes[*key] == byte).map(|(_, signal)| signal)
}

/// Whether this kernel sends them by itself, found out by typing into a terminal nobody has: a key that is a signal is
/// not to be read.
pub(super) fn kernel_sends_them() -> io::Result<bool> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let slave = openat(CWD, name, flags, Mode::empty())?;
    let mut modes = tcgetattr(&slave)?;
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    let key = modes.special_codes[SpecialCodeIndex::VINTR];
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    rustix::io::write(&master, &[key])?;
    Ok(rustix::io::read(slave.as_fd(), &mut [0; 1]).is_err())
}

/// Leaves a process in the session of the caller that passes signals on until its messenger is gone. Its parent is init,
/// so that the command does not find a child it did not start.
///
/// # Safety
/// Only between clone and exec, with the terminal as 2 and every signal blocked.
pub(super) unsafe fn leave_behind(listener: RawFd) -> bool {
    // SAFETY: the copies have memory of their own, and end in here.
    unsafe {
        match fork() {
            -1 => false,
            0 => {
                if fork() == 0 {
                    pass_on(listener);
                }
                libc::_exit(0)
            }
            child => libc::waitpid(child, std::ptr::null_mut(), 0) == child,
        }
    }
}

/// Raw: the library's `fork` does more than a copy of a single thread needs.
unsafe fn fork() -> libc::pid_t {
    // SAFETY: without flags the child is a copy.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    libc::pid_t::try_from(pid).unwrap_or(-1)
}

unsafe fn pass_on(listener: RawFd) -> ! {
    // SAFETY: system calls on our own descriptors and local memory.
    unsafe {
        libc::setpgid(0, 0);
        libc::dup2(2, 0);
        libc::dup2(listener, 1);
        libc::syscall(libc::SYS_close_range, 2u32, u32::MAX, 0);
        let _ = crate::native::capabilities::drop_all();
        let mut signal = 0u8;
        while libc::read(1, (&raw mut signal).cast(), 1) == 1 {
            let foreground = libc::tcgetpgrp(0);
            if foreground > 1 {
                libc::kill(-foreground, signal.into());
            }
        }
        libc::_exit(0)
    }
}
