//! A command's terminal: init keeps the master and moves bytes between it and the host's pipes.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags},
    fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, openat},
    io::{Errno, read, write},
    pty::{OpenptFlags, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use sandbar_core::TerminalSize;

use super::terminal_signals::TerminalSignals;

const CHUNK: usize = 8 * 1024;
/// What a terminal takes for the end of input.
const END_OF_INPUT: u8 = 4;
/// More than a terminal holds. What comes later is from jobs in the background, whose end is not waited for.
const TAIL: usize = 64 * 1024;
/// Terminals of another kernel may hold as much as they like.
const GUEST_TAIL: usize = 64 * 1024 * 1024;

/// Who sees to what a terminal does beside moving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TerminalKeeper {
    Linux,
    /// Another kernel that knows how.
    Guest,
    /// Init, since the kernel does not.
    Init,
}

/// The master side of a terminal, and what is on its way.
#[derive(Debug)]
pub(super) struct Terminal {
    master: OwnedFd,
    /// Held, so that the terminal has no end as long as the command runs, which may close it and open it again by name.
    _slave: OwnedFd,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    typed: Vec<u8>,
    /// The line being typed has not ended.
    in_line: bool,
    shown: Vec<u8>,
    /// Bytes the command may still show after its end.
    tail: usize,
    /// Where the kernel does not send them.
    signals: Option<TerminalSignals>,
}

/// A terminal that has been made.
pub(super) struct NewTerminal {
    pub(super) terminal: Terminal,
    /// The side the command gets.
    pub(super) slave: OwnedFd,
    /// What the process in the session listens to that passes signals on.
    pub(super) listener: Option<OwnedFd>,
}

impl Terminal {
    /// `keeper` says who has to see to what a terminal does.
    pub(super) fn open(
        size: TerminalSize,
        stdin: OwnedFd,
        stdout: OwnedFd,
        keeper: TerminalKeeper,
    ) -> io::Result<NewTerminal> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = openat(CWD, name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        for end in [&master, &stdin, &stdout] {
            fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
        }
        let mut terminal = Self {
            master,
            _slave: slave.try_clone()?,
            stdin: Some(stdin),
            stdout: Some(stdout),
            typed: vec![],
            in_line: false,
            shown: vec![],
            tail: if keeper == TerminalKeeper::Linux { TAIL } else { GUEST_TAIL },
            signals: None,
        };
        terminal.resize(size)?;
        let mut listener = None;
        if keeper == TerminalKeeper::Init {
            let (signals, other_end) = TerminalSignals::open()?;
            (terminal.signals, listener) = (Some(signals), Some(other_end));
        }
        Ok(NewTerminal { terminal, slave, listener })
    }

    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size)?;
        if let Some(signals) = &self.signals {
            signals.send(libc::SIGWINCH);
        }
        Ok(())
    }

    /// What to wait for before [`step`](Self::step) can do something.
    pub(super) fn interests(&self) -> Vec<PollFd<'_>> {
        let mut master = PollFlags::empty();
        if self.shown.is_empty() {
            master |= PollFlags::IN;
        }
        if !self.typed.is_empty() {
            master |= PollFlags::OUT;
        }
        let mut found = Vec::with_capacity(3);
        if !master.is_empty() {
            found.push(PollFd::from_borrowed_fd(self.master.as_fd(), master));
        }
        if let (Some(stdin), true) = (&self.stdin, self.typed.is_empty()) {
            found.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
        }
        if let (Some(stdout), false) = (&self.stdout, self.shown.is_empty()) {
            found.push(PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::OUT));
        }
        found
    }

    /// Reads what was typed, unless something still waits for the command to take it. Returns whether there was anything.
    pub(super) fn take_input(&mut self) -> bool {
        let Some(stdin) = self.stdin.as_ref().filter(|_| self.typed.is_empty()) else { return false };
        match fill(stdin.as_fd(), &mut self.typed) {
            Moved::Some => {
                self.in_line = self.typed.last().is_some_and(|byte| !b"\n\r\x04".contains(byte));
                if let Some(signals) = &self.signals {
                    signals.take_keys(&self.master, &mut self.typed, &mut self.shown);
                }
            }
            Moved::NotNow => return false,
            Moved::End => {
                self.stdin = None;
                // Within a line, the first one only ends the line.
                self.typed.extend_from_slice(if self.in_line { &[END_OF_INPUT; 2] } else { &[END_OF_INPUT] });
            }
        }
        true
    }

    /// Moves what can be moved now.
    pub(super) fn step(&mut self) {
        if matches!(drain(self.master.as_fd(), &mut self.typed), Moved::End) {
            self.typed.clear();
        }
        self.take_shown();
    }

    fn take_shown(&mut self) {
        loop {
            if let Some(stdout) = &self.stdout
                && matches!(drain(stdout.as_fd(), &mut self.shown), Moved::End)
            {
                self.stdout = None;
            }
            if self.stdout.is_none() {
                // Nobody looks: the command may go on writing.
                self.shown.clear();
            }
            if !self.shown.is_empty() || !matches!(fill(self.master.as_fd(), &mut self.shown), Moved::Some) {
                return;
            }
        }
    }

    /// Everything the command has shown so far was handed over. To be asked after it has ended.
    pub(super) fn is_drained(&mut self) -> bool {
        let before = self.shown.len();
        self.take_shown();
        self.tail = self.tail.saturating_sub(before.saturating_sub(self.shown.len()));
        self.shown.is_empty() || self.tail == 0
    }
}

enum Moved {
    Some,
    NotNow,
    End,
}

fn fill(from: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Moved {
    buffer.resize(CHUNK, 0);
    let outcome = read(from, &mut buffer[..]);
    buffer.truncate(outcome.unwrap_or(0));
    match outcome {
        Ok(0) => Moved::End,
        Ok(_) => Moved::Some,
        Err(Errno::AGAIN | Errno::INTR) => Moved::NotNow,
        Err(_) => Moved::End,
    }
}

fn drain(to: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Moved {
    while !buffer.is_empty() {
        match write(to, buffer) {
            Ok(count) => drop(buffer.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => return Moved::NotNow,
            Err(_) => return Moved::End,
        }
    }
    Moved::Some
}
