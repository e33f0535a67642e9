//! Terminal signals on kernels that do not send them: some versions of gVisor neither handle the
//! interrupt keys nor send SIGWINCH.
//!
//! Only members of the terminal's session may query its foreground process group. So a helper
//! process, the forwarder, stays in the command's session and forwards signals to that group.

#![expect(unsafe_code, reason = "a vfork child may only make raw system calls")]

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

/// Control characters and their signals.
const KEYS: [(SpecialCodeIndex, i32); 3] = [
    (SpecialCodeIndex::VINTR, libc::SIGINT),
    (SpecialCodeIndex::VQUIT, libc::SIGQUIT),
    (SpecialCodeIndex::VSUSP, libc::SIGTSTP),
];

/// Connection to the signal forwarder.
#[derive(Debug)]
pub(super) struct TerminalSignals {
    pipe: OwnedFd,
}

impl TerminalSignals {
    /// Returns the connection and the read end for the forwarder.
    pub(super) fn open() -> io::Result<(Self, OwnedFd)> {
        let (read_end, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok((Self { pipe }, read_end))
    }

    /// Sends a signal to the foreground process group.
    pub(super) fn send(&self, signal: i32) {
        if let Ok(byte) = u8::try_from(signal) {
            let _ = rustix::io::write(&self.pipe, &[byte]);
        }
    }

    /// Removes control characters from the input, sends their signals and echoes them.
    pub(super) fn handle_keys(&self, terminal: &OwnedFd, typed: &mut Vec<u8>, shown: &mut Vec<u8>) {
        let Ok(modes) = tcgetattr(terminal) else {
            return;
        };
        if !modes.local_modes.contains(LocalModes::ISIG) {
            return;
        }
        typed.retain(|&byte| {
            let Some(signal) = signal_of(&modes, byte) else {
                return true;
            };
            if modes.local_modes.contains(LocalModes::ECHO) {
                shown.extend_from_slice(&[b'^', byte ^ 0x40]);
            }
            self.send(signal);
            false
        });
    }
}

fn signal_of(modes: &Termios, byte: u8) -> Option<i32> {
    // Zero means that no key is assigned.
    KEYS.into_iter()
        .find(|(key, _)| byte != 0 && modes.special_codes[*key] == byte)
        .map(|(_, signal)| signal)
}

/// Returns whether the kernel handles control characters. Probed by writing one to a new terminal:
/// if the kernel handles it, it cannot be read from the slave.
pub(super) fn kernel_sends_signals() -> io::Result<bool> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let slave = openat(CWD, name, flags, Mode::empty())?;
    let mut modes = tcgetattr(&slave)?;
    modes
        .local_modes
        .remove(LocalModes::ICANON | LocalModes::ECHO);
    let key = modes.special_codes[SpecialCodeIndex::VINTR];
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    rustix::io::write(&master, &[key])?;
    Ok(rustix::io::read(slave.as_fd(), &mut [0; 1]).is_err())
}

/// Forks the forwarder into the session of the caller. It runs until init closes the pipe. It is
/// reparented to init, so that the command has no child it did not start.
///
/// # Safety
/// To be called between clone and exec only, with the terminal as 2 and all signals blocked.
pub(super) unsafe fn spawn_forwarder(signal_pipe: RawFd) -> bool {
    // SAFETY: the forked processes have their own memory and exit in here.
    unsafe {
        match fork() {
            -1 => false,
            0 => {
                if fork() == 0 {
                    forward(signal_pipe);
                }
                libc::_exit(0)
            }
            child => libc::waitpid(child, std::ptr::null_mut(), 0) == child,
        }
    }
}

/// Forks by a raw system call: the libc function runs handlers and takes locks, which is not
/// allowed here.
unsafe fn fork() -> libc::pid_t {
    // SAFETY: without CLONE_VM the child gets its own copy of the memory.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    libc::pid_t::try_from(pid).unwrap_or(-1)
}

unsafe fn forward(signal_pipe: RawFd) -> ! {
    // SAFETY: system calls on own descriptors and local memory.
    unsafe {
        libc::setpgid(0, 0);
        libc::dup2(2, 0);
        libc::dup2(signal_pipe, 1);
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
