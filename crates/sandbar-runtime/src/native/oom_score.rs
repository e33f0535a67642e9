//! OOM score adjustment of boxes: the kernel kills their processes before those of the machine.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};

/// Adjustment of init. Lower than that of commands, which the kernel kills first when the memory
/// of a box is used up.
const INIT: i32 = 100;
/// Adjustment of commands.
const COMMANDS: i32 = 500;

/// OOM score adjustment of init, which the commands it starts inherit.
///
/// A process can lower its own only to the value that a process with `CAP_SYS_RESOURCE` has set
/// last: [`INIT`], or zero if the host lacks this capability.
#[derive(Debug)]
pub(crate) struct OomScore {
    /// Opened while the process is dumpable: later, the kernel denies it its own `/proc` files.
    file: OwnedFd,
    init: i32,
    commands: i32,
}

/// Raises the adjustment of a program that is about to be executed, to that of commands. Called
/// between fork and exec, so it must not allocate.
pub(crate) fn raise_program() -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(CWD, c"/proc/self/oom_score_adj", flags, Mode::empty())?;
    match rustix::io::write(&file, b"500") {
        // The host has a higher one itself.
        Ok(_) | Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

impl OomScore {
    /// Raises the adjustment of the calling process.
    pub(super) fn raise() -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(CWD, "/proc/self/oom_score_adj", flags, Mode::empty())?;
        let mut text = [0; 16];
        let length = rustix::io::pread(&file, &mut text, 0)?;
        let inherited = str::from_utf8(&text[..length])
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0);
        let score = Self {
            file,
            init: INIT.max(inherited),
            commands: COMMANDS.max(inherited),
        };
        score.set(score.init)?;
        Ok(score)
    }

    /// Runs `start`, which forks a command, with the adjustment of commands.
    pub(crate) fn for_command<T>(&self, start: impl FnOnce() -> T) -> io::Result<T> {
        self.set(self.commands)?;
        let started = start();
        self.set(self.init)?;
        Ok(started)
    }

    fn set(&self, adjustment: i32) -> io::Result<()> {
        rustix::io::pwrite(self.file.as_fd(), adjustment.to_string().as_bytes(), 0)?;
        Ok(())
    }
}
