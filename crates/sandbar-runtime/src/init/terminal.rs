//! Terminal of a command: init holds the master and relays between it and the host's pipes.

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

const CHUNK_BYTES: usize = 8 * 1024;
/// Control character (`VEOF`) that a terminal takes as end of input.
const END_OF_INPUT: u8 = 4;
/// Limits the output that is read after the end of the command. More than a terminal buffers; what
/// follows comes from background jobs, which are not waited for.
const MAX_TAIL_BYTES: usize = 64 * 1024;
/// The same for gVisor, whose terminals buffer without limit.
const MAX_GUEST_TAIL_BYTES: usize = 64 * 1024 * 1024;

/// Source of the terminal's signals: SIGINT, SIGQUIT, SIGTSTP and SIGWINCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalSource {
    Linux,
    /// A gVisor kernel that sends them.
    GuestKernel,
    /// Init, because the gVisor kernel does not send them.
    Init,
}

/// Master side of a terminal, with buffers in both directions.
#[derive(Debug)]
pub(super) struct Terminal {
    master: OwnedFd,
    /// Held open so that the master does not report a hang-up while the command runs: it may close
    /// the terminal and reopen it by name.
    _slave: OwnedFd,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    /// Input that is not written to the terminal yet.
    typed: Vec<u8>,
    /// The last byte of input did not end a line.
    in_line: bool,
    /// Output that is not written to the host yet.
    shown: Vec<u8>,
    /// Bytes of output that may still be read after the end of the command.
    tail: usize,
    /// Only for [`SignalSource::Init`].
    signals: Option<TerminalSignals>,
}

/// An opened terminal.
pub(super) struct NewTerminal {
    pub(super) terminal: Terminal,
    /// Side of the command.
    pub(super) slave: OwnedFd,
    /// Read end for the signal forwarder.
    pub(super) signal_pipe: Option<OwnedFd>,
}

impl Terminal {
    /// Opens a terminal that is relayed to the host's pipes.
    pub(super) fn open(
        size: TerminalSize,
        stdin: OwnedFd,
        stdout: OwnedFd,
        source: SignalSource,
    ) -> io::Result<NewTerminal> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = openat(
            CWD,
            name,
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
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
            tail: if source == SignalSource::Linux {
                MAX_TAIL_BYTES
            } else {
                MAX_GUEST_TAIL_BYTES
            },
            signals: None,
        };
        terminal.resize(size)?;
        let mut signal_pipe = None;
        if source == SignalSource::Init {
            let (signals, read_end) = TerminalSignals::open()?;
            (terminal.signals, signal_pipe) = (Some(signals), Some(read_end));
        }
        Ok(NewTerminal {
            terminal,
            slave,
            signal_pipe,
        })
    }

    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.master, size)?;
        if let Some(signals) = &self.signals {
            signals.send(libc::SIGWINCH);
        }
        Ok(())
    }

    /// Returns what to poll for before the next [`step`](Self::step).
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

    /// Reads input from the host, unless earlier input is still buffered. Returns whether there was
    /// any.
    pub(super) fn read_input(&mut self) -> bool {
        let Some(stdin) = self.stdin.as_ref().filter(|_| self.typed.is_empty()) else {
            return false;
        };
        match fill(stdin.as_fd(), &mut self.typed) {
            Moved::Some => {
                self.in_line = self
                    .typed
                    .last()
                    .is_some_and(|byte| !b"\n\r\x04".contains(byte));
                if let Some(signals) = &self.signals {
                    signals.handle_keys(&self.master, &mut self.typed, &mut self.shown);
                }
            }
            Moved::WouldBlock => return false,
            Moved::End => {
                self.stdin = None;
                // Within a line, the first one only flushes the line.
                self.typed.extend_from_slice(if self.in_line {
                    &[END_OF_INPUT; 2]
                } else {
                    &[END_OF_INPUT]
                });
            }
        }
        true
    }

    /// Moves bytes in both directions without blocking.
    pub(super) fn step(&mut self) {
        if matches!(drain(self.master.as_fd(), &mut self.typed), Moved::End) {
            self.typed.clear();
        }
        self.relay_output();
    }

    fn relay_output(&mut self) {
        loop {
            if let Some(stdout) = &self.stdout
                && matches!(drain(stdout.as_fd(), &mut self.shown), Moved::End)
            {
                self.stdout = None;
            }
            if self.stdout.is_none() {
                // The host does not read: discard, so that the command does not block.
                self.shown.clear();
            }
            if !self.shown.is_empty()
                || !matches!(fill(self.master.as_fd(), &mut self.shown), Moved::Some)
            {
                return;
            }
        }
    }

    /// Returns whether all output has been written to the host. To be called after the command has
    /// ended.
    pub(super) fn is_drained(&mut self) -> bool {
        let before = self.shown.len();
        self.relay_output();
        self.tail = self
            .tail
            .saturating_sub(before.saturating_sub(self.shown.len()));
        self.shown.is_empty() || self.tail == 0
    }
}

enum Moved {
    Some,
    WouldBlock,
    End,
}

fn fill(from: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Moved {
    buffer.resize(CHUNK_BYTES, 0);
    let outcome = read(from, &mut buffer[..]);
    buffer.truncate(outcome.unwrap_or(0));
    match outcome {
        Ok(0) => Moved::End,
        Ok(_) => Moved::Some,
        Err(Errno::AGAIN | Errno::INTR) => Moved::WouldBlock,
        Err(_) => Moved::End,
    }
}

fn drain(to: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Moved {
    while !buffer.is_empty() {
        match write(to, buffer) {
            Ok(count) => drop(buffer.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => return Moved::WouldBlock,
            Err(_) => return Moved::End,
        }
    }
    Moved::Some
}
