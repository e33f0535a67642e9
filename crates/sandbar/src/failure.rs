//! Errors of the command line: exit codes, and the one line that is printed.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use sandbar_core::{Error, shown};

use crate::terminal::output;

/// Exit codes with the same meaning for every verb. `exec` and `run` also pass on the exit code of
/// the command.
pub(crate) mod exit {
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const TIMED_OUT: u8 = 124;
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    pub(crate) const NOT_FOUND: u8 = 127;
    pub(crate) const BROKEN_PIPE: u8 = 128 + 13;
    pub(crate) const INTERRUPTED: u8 = 128 + 2;

    /// Returns what a shell reports after signal `number`.
    pub(crate) fn signalled(number: i32) -> u8 {
        u8::try_from((128 + number) & 0xff).unwrap_or(FAILED)
    }
}

/// Error with its exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Any error; printed on stderr.
    Error(Error),
    /// Wrong use of the command line; printed on stderr.
    Usage(Error),
    /// Error with a specific exit code.
    Coded(Error, u8),
    /// The reader of our stdout closed it. Nothing is printed.
    BrokenPipe,
}

pub(crate) type Outcome<T = ExitCode> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Failure {
    /// Returns the failure for an error while writing our output.
    pub(crate) fn writing(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::Error(Error::io("could not write the output", error))
        }
    }
}

/// Prints the error and returns its exit code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    let (error, code) = match failure {
        Failure::Error(error) => (error, error.code().exit_code()),
        Failure::Usage(error) => (error, exit::USAGE),
        Failure::Coded(error, code) => (error, *code),
        Failure::BrokenPipe => return ExitCode::from(exit::BROKEN_PIPE),
    };
    say_error(error);
    ExitCode::from(code)
}

/// Prints `error: message — causes — hint` on stderr.
pub(crate) fn say_error(error: &Error) {
    let style = output::stderr_style();
    // An error of stderr itself cannot be reported.
    let _ = writeln!(
        io::stderr().lock(),
        "{}error:{} {}",
        style.error,
        style.reset,
        describe(error)
    );
}

/// Returns message, causes and hint on one line.
pub(crate) fn describe(error: &Error) -> String {
    let mut text = error.message().to_owned();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let why = error.to_string();
        // Libraries often repeat their source in their own text.
        if !why.is_empty() && !text.contains(&why) {
            text.push_str(" — ");
            text.push_str(&why);
        }
        cause = error.source();
    }
    if let Some(hint) = error.hint() {
        text.push_str(" — ");
        text.push_str(hint);
    }
    // Texts of libraries may contain line breaks, and names in a sandbox anything.
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    shown(&lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_one_line_of_message_causes_and_hint() {
        let error = Error::io("could not read `x`", io::Error::other("disk\n on fire"))
            .with_hint("buy a new one");
        assert_eq!(
            describe(&error),
            "could not read `x` — disk; on fire — buy a new one"
        );
    }

    #[test]
    fn names_in_errors_do_not_reach_the_terminal_raw() {
        let error = Error::internal("`a\u{1b}[2J\u{9b}1m\u{202e}` is a directory");
        assert_eq!(
            describe(&error),
            "`a\\u{1b}[2J\\u{9b}1m\\u{202e}` is a directory"
        );
    }

    #[test]
    fn cause_in_the_message_is_not_repeated() {
        let error =
            Error::internal("open: disk on fire").with_source(io::Error::other("disk on fire"));
        assert_eq!(describe(&error), "open: disk on fire");
    }
}
