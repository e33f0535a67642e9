//! The terminal we were started on: its size, and a raw mode that always ends.
//!
//! In raw mode every key is a byte for the command: Ctrl-C, Ctrl-D and Ctrl-Z mean what they mean at its terminal, and
//! nothing is echoed here.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::termios::{LocalModes, OptionalActions, Termios, Winsize, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use sandbar_core::{Error, ExecSpec, Result, StdinMode, TerminalSize};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    env_vars,
    failure::{Failure, Outcome},
};

/// What programs assume of a terminal that does not know its own size, a serial line for example.
pub(crate) const CLASSIC: TerminalSize = TerminalSize { rows: 24, columns: 80 };

/// The terminal our input comes from.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: OwnedFd,
}

impl Terminal {
    /// The terminal on our stdin. `wanted_by` is what was typed, `instead` what to do where there is no terminal.
    pub(crate) fn of_stdin(wanted_by: &str, instead: &str) -> Outcome<Self> {
        let stdin = io::stdin();
        if !isatty(&stdin) {
            let error = Error::invalid("tty", format!("`{wanted_by}` needs a terminal — our input is not one"));
            return Err(Failure::Usage(error.with_hint(instead.to_owned())));
        }
        Ok(Self::at(stdin.as_fd())?)
    }

    /// The terminal behind a descriptor.
    pub(crate) fn at(descriptor: BorrowedFd<'_>) -> Result<Self> {
        let device = descriptor.try_clone_to_owned();
        Ok(Self { device: device.map_err(|error| Error::io("could not open the terminal", error))? })
    }

    /// Has the command run at a terminal like this one.
    pub(crate) fn describe(&self, spec: &mut ExecSpec) {
        spec.terminal = Some(self.size());
        spec.stdin = StdinMode::Piped;
        if let Some(kind) = Self::kind() {
            spec.env.entry(env_vars::TERM.to_owned()).or_insert(kind);
        }
    }

    /// The kind of terminal this is, for the environment of what runs at one like it.
    pub(crate) fn kind() -> Option<String> {
        std::env::var(env_vars::TERM).ok().filter(|kind| !kind.is_empty())
    }

    pub(crate) fn size(&self) -> TerminalSize {
        match tcgetwinsize(&self.device) {
            Ok(Winsize { ws_row: rows @ 1.., ws_col: columns @ 1.., .. }) => TerminalSize { rows, columns },
            _ => CLASSIC,
        }
    }

    /// From now on, every new size. Must be called inside the async runtime.
    pub(crate) fn sizes(&self) -> Result<Sizes> {
        let changed = signal(SignalKind::window_change());
        let changed =
            changed.map_err(|error| Error::io("could not listen for changes of the terminal's size", error))?;
        let device = self.device.try_clone().map_err(|error| Error::io("could not open the terminal", error))?;
        Ok(Sizes { terminal: Self { device }, changed })
    }

    /// Passes every key on as it is, until the returned guard is dropped.
    pub(crate) fn raw(&self) -> Result<ChangedMode<'_>> {
        self.change(Termios::make_raw)
    }

    /// Does not show what is typed, until the returned guard is dropped.
    pub(crate) fn hidden(&self) -> Result<ChangedMode<'_>> {
        self.change(|modes| modes.local_modes.remove(LocalModes::ECHO))
    }

    fn change(&self, change: impl FnOnce(&mut Termios)) -> Result<ChangedMode<'_>> {
        let failed = |errno: rustix::io::Errno| Error::io("could not change the mode of the terminal", errno.into());
        let before = tcgetattr(&self.device).map_err(failed)?;
        let mut changed = before.clone();
        change(&mut changed);
        tcsetattr(&self.device, OptionalActions::Now, &changed).map_err(failed)?;
        Ok(ChangedMode { terminal: self, before })
    }
}

/// The sizes a terminal takes.
#[derive(Debug)]
pub(crate) struct Sizes {
    terminal: Terminal,
    changed: Signal,
}

impl Sizes {
    /// The size after the next change; changes in quick succession are one.
    pub(crate) async fn next(&mut self) -> TerminalSize {
        if self.changed.recv().await.is_none() {
            // Only without a signal driver, and then there are no changes either.
            std::future::pending::<()>().await;
        }
        self.terminal.size()
    }
}

/// A mode of the terminal for a while. Dropping it gives the terminal back as it was, also when a panic unwinds.
#[derive(Debug)]
pub(crate) struct ChangedMode<'a> {
    terminal: &'a Terminal,
    before: Termios,
}

impl Drop for ChangedMode<'_> {
    fn drop(&mut self) {
        // Now, not when the output is through: a terminal that was stopped with Ctrl-S would never give us back. It
        // fails when the terminal itself is gone.
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
    fn raw_mode_ends_with_its_guard_and_the_terminal_is_as_it_was() {
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
    fn what_is_typed_hidden_is_read_by_the_line_and_not_shown() {
        let pty = Pty::open(24, 80);
        let before = pty.modes();
        let terminal = terminal(&pty);
        let hidden = terminal.hidden().unwrap();
        File::from(pty.controller().try_clone_to_owned().unwrap()).write_all(b"secreX\x7ft\n").unwrap();
        let mut typed = [0; 7];
        let mut device = File::from(pty.device().try_clone_to_owned().unwrap());
        device.read_exact(&mut typed).unwrap();
        assert_eq!(&typed, b"secret\n");
        device.write_all(b"shown").unwrap();
        let mut shown = [0; 5];
        File::from(pty.controller().try_clone_to_owned().unwrap()).read_exact(&mut shown).unwrap();
        assert_eq!(&shown, b"shown");
        drop(hidden);
        assert_eq!(pty.modes(), before);
    }

    #[test]
    fn in_raw_mode_control_keys_are_bytes_and_nothing_is_echoed() {
        let pty = Pty::open(24, 80);
        let terminal = terminal(&pty);
        let _raw = terminal.raw().unwrap();
        let keys = b"\x03\x04\x1a\x1c\r\n\x7f";
        File::from(pty.controller().try_clone_to_owned().unwrap()).write_all(keys).unwrap();
        let mut typed = [0; 7];
        let mut device = File::from(pty.device().try_clone_to_owned().unwrap());
        device.read_exact(&mut typed).unwrap();
        assert_eq!(&typed, keys);
        // What the screen shows first is what is written now: there was no echo before it, and no byte was changed.
        device.write_all(b"a\nb").unwrap();
        let mut shown = [0; 3];
        File::from(pty.controller().try_clone_to_owned().unwrap()).read_exact(&mut shown).unwrap();
        assert_eq!(&shown, b"a\nb");
    }

    #[test]
    fn a_command_gets_our_size_and_kind_of_terminal_unless_told_otherwise() {
        let pty = Pty::open(40, 132);
        let mut spec = ExecSpec::new(["vi"]);
        spec.env.insert("TERM".to_owned(), "vt52".to_owned());
        terminal(&pty).describe(&mut spec);
        assert_eq!(spec.terminal, Some(TerminalSize { rows: 40, columns: 132 }));
        assert_eq!((spec.stdin, spec.env["TERM"].as_str()), (StdinMode::Piped, "vt52"));
        pty.resize(0, 0);
        assert_eq!(terminal(&pty).size(), CLASSIC);
    }
}
