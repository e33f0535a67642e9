//! The terminal of this process: its size, and modes that are restored on drop.
//!
//! In raw mode every key arrives as a byte, also Ctrl-C, Ctrl-D and Ctrl-Z, and nothing is echoed.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::termios::{
    LocalModes, OptionalActions, Termios, Winsize, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};
use sandbar_core::{Error, ExecSpec, Result, StdinMode, TerminalSize};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    env_vars,
    failure::{Failure, Outcome},
};

/// Size of a terminal that does not know its own, for example a serial line.
pub(crate) const DEFAULT_SIZE: TerminalSize = TerminalSize {
    rows: 24,
    columns: 80,
};

/// A terminal device.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: OwnedFd,
}

impl Terminal {
    /// Opens the terminal on our stdin. `wanted_by` names the option or verb that needs it,
    /// `instead` is the hint if stdin is not a terminal.
    pub(crate) fn of_stdin(wanted_by: &str, instead: &str) -> Outcome<Self> {
        let stdin = io::stdin();
        if !isatty(&stdin) {
            let error = Error::invalid(
                "tty",
                format!("`{wanted_by}` needs a terminal, and stdin is not one"),
            );
            return Err(Failure::Usage(error.with_hint(instead.to_owned())));
        }
        Ok(Self::at(stdin.as_fd())?)
    }

    /// Returns the terminal of a descriptor.
    pub(crate) fn at(descriptor: BorrowedFd<'_>) -> Result<Self> {
        let device = descriptor.try_clone_to_owned();
        Ok(Self {
            device: device.map_err(|error| Error::io("could not open the terminal", error))?,
        })
    }

    /// Sets size and type of this terminal for a command.
    pub(crate) fn describe(&self, spec: &mut ExecSpec) {
        spec.terminal = Some(self.size());
        spec.stdin = StdinMode::Piped;
        if let Some(kind) = Self::kind() {
            spec.env.entry(env_vars::TERM.to_owned()).or_insert(kind);
        }
    }

    /// Returns the terminal type, `$TERM`.
    pub(crate) fn kind() -> Option<String> {
        std::env::var(env_vars::TERM)
            .ok()
            .filter(|kind| !kind.is_empty())
    }

    pub(crate) fn size(&self) -> TerminalSize {
        match tcgetwinsize(&self.device) {
            Ok(Winsize {
                ws_row: rows @ 1..,
                ws_col: columns @ 1..,
                ..
            }) => TerminalSize { rows, columns },
            _ => DEFAULT_SIZE,
        }
    }

    /// Watches the size from now on. Must be called inside the async runtime.
    pub(crate) fn sizes(&self) -> Result<Sizes> {
        let changed = signal(SignalKind::window_change());
        let changed = changed
            .map_err(|error| Error::io("could not watch the size of the terminal", error))?;
        let device = self
            .device
            .try_clone()
            .map_err(|error| Error::io("could not open the terminal", error))?;
        Ok(Sizes {
            terminal: Self { device },
            changed,
        })
    }

    /// Switches to raw mode until the returned guard is dropped.
    pub(crate) fn raw(&self) -> Result<ChangedMode<'_>> {
        self.change(Termios::make_raw)
    }

    /// Turns echo off until the returned guard is dropped.
    pub(crate) fn hidden(&self) -> Result<ChangedMode<'_>> {
        self.change(|modes| modes.local_modes.remove(LocalModes::ECHO))
    }

    fn change(&self, change: impl FnOnce(&mut Termios)) -> Result<ChangedMode<'_>> {
        let failed = |errno: rustix::io::Errno| {
            Error::io("could not change the mode of the terminal", errno.into())
        };
        let before = tcgetattr(&self.device).map_err(failed)?;
        let mut changed = before.clone();
        change(&mut changed);
        tcsetattr(&self.device, OptionalActions::Now, &changed).map_err(failed)?;
        Ok(ChangedMode {
            terminal: self,
            before,
        })
    }
}

/// Watch on the size of a terminal.
#[derive(Debug)]
pub(crate) struct Sizes {
    terminal: Terminal,
    changed: Signal,
}

impl Sizes {
    /// Waits for the next change and returns the size; quick changes are merged.
    pub(crate) async fn next(&mut self) -> TerminalSize {
        if self.changed.recv().await.is_none() {
            // Only without a signal driver: then no change is ever seen.
            std::future::pending::<()>().await;
        }
        self.terminal.size()
    }
}

/// Changed mode of the terminal. Dropping it restores the previous mode, also during a panic.
#[derive(Debug)]
pub(crate) struct ChangedMode<'a> {
    terminal: &'a Terminal,
    before: Termios,
}

impl Drop for ChangedMode<'_> {
    fn drop(&mut self) {
        // Without waiting for the output to drain: a terminal stopped with Ctrl-S would block us.
        // It fails if the terminal itself is gone.
        let _ = tcsetattr(&self.terminal.device, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
        panic::{AssertUnwindSafe, catch_unwind},
    };

    use sandbar_testing::Pty;

    use super::*;

    fn terminal(pty: &Pty) -> Terminal {
        Terminal::at(pty.device()).unwrap()
    }

    #[test]
    fn raw_mode_ends_with_its_guard() {
        let pty = Pty::open(24, 80);
        let before = pty.modes();
        let terminal = terminal(&pty);
        let raw = terminal.raw().unwrap();
        assert_ne!(pty.modes(), before);
        drop(raw);
        assert_eq!(pty.modes(), before);
    }

    #[test]
    fn raw_mode_ends_when_a_panic_unwinds() {
        let pty = Pty::open(24, 80);
        let before = pty.modes();
        let terminal = terminal(&pty);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _raw = terminal.raw().unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(pty.modes(), before);
    }

    #[test]
    fn hidden_input_is_read_by_line_and_not_echoed() {
        let pty = Pty::open(24, 80);
        let before = pty.modes();
        let terminal = terminal(&pty);
        let hidden = terminal.hidden().unwrap();
        File::from(pty.controller().try_clone_to_owned().unwrap())
            .write_all(b"secreX\x7ft\n")
            .unwrap();
        let mut typed = [0; 7];
        let mut device = File::from(pty.device().try_clone_to_owned().unwrap());
        device.read_exact(&mut typed).unwrap();
        assert_eq!(&typed, b"secret\n");
        device.write_all(b"shown").unwrap();
        let mut shown = [0; 5];
        File::from(pty.controller().try_clone_to_owned().unwrap())
            .read_exact(&mut shown)
            .unwrap();
        assert_eq!(&shown, b"shown");
        drop(hidden);
        assert_eq!(pty.modes(), before);
    }

    #[test]
    fn control_keys_are_bytes_in_raw_mode() {
        let pty = Pty::open(24, 80);
        let terminal = terminal(&pty);
        let _raw = terminal.raw().unwrap();
        let keys = b"\x03\x04\x1a\x1c\r\n\x7f";
        File::from(pty.controller().try_clone_to_owned().unwrap())
            .write_all(keys)
            .unwrap();
        let mut typed = [0; 7];
        let mut device = File::from(pty.device().try_clone_to_owned().unwrap());
        device.read_exact(&mut typed).unwrap();
        assert_eq!(&typed, keys);
        // The first output is what is written now: nothing was echoed, and no byte is translated.
        device.write_all(b"a\nb").unwrap();
        let mut shown = [0; 3];
        File::from(pty.controller().try_clone_to_owned().unwrap())
            .read_exact(&mut shown)
            .unwrap();
        assert_eq!(&shown, b"a\nb");
    }

    #[test]
    fn command_gets_our_terminal_size_and_type() {
        let pty = Pty::open(40, 132);
        let mut spec = ExecSpec::new(["vi"]);
        spec.env.insert("TERM".to_owned(), "vt52".to_owned());
        terminal(&pty).describe(&mut spec);
        assert_eq!(
            spec.terminal,
            Some(TerminalSize {
                rows: 40,
                columns: 132
            })
        );
        assert_eq!(
            (spec.stdin, spec.env["TERM"].as_str()),
            (StdinMode::Piped, "vt52")
        );
        pty.resize(0, 0);
        assert_eq!(terminal(&pty).size(), DEFAULT_SIZE);
    }
}
