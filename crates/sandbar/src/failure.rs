//! How a command ends when it does not do what was asked.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use sandbar_core::Error;

use crate::output;

/// Exit codes that mean the same for every verb. `exec` and `run` pass on the command's own code beside these.
pub(crate) mod exit {
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const TIMED_OUT: u8 = 124;
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    pub(crate) const NOT_FOUND: u8 = 127;
    pub(crate) const BROKEN_PIPE: u8 = 128 + 13;
    pub(crate) const INTERRUPTED: u8 = 128 + 2;

    /// What a shell reports for something that signal `number` ended.
    pub(crate) fn signalled(number: i32) -> u8 {
        u8::try_from((128 + number) & 0xff).unwrap_or(FAILED)
    }
}

/// An error with the exit code it ends in.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something went wrong; said on stderr.
    Error(Error),
    /// The command line does not make sense; said on stderr.
    Usage(Error),
    /// An error with an exit code of its own.
    Coded(Error, u8),
    /// Whoever read our output went away. Nobody is there to be told.
    BrokenPipe,
}

pub(crate) type Outcome<T = ExitCode> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Failure {
    /// A failure to write our own output.
    pub(crate) fn writing(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::Error(Error::io("could not write the output", error))
        }
    }
}

/// Says on stderr what went wrong and gives the exit code for it.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    let (error, code) = match failure {
        Failure::Error(error) => (error, exit::FAILED),
        Failure::Usage(error) => (error, exit::USAGE),
        Failure::Coded(error, code) => (error, *code),
        Failure::BrokenPipe => return ExitCode::from(exit::BROKEN_PIPE),
    };
    say_error(error);
    ExitCode::from(code)
}

/// Prints `error: what — why — what to do` on stderr.
pub(crate) fn say_error(error: &Error) {
    let style = output::stderr_style();
    // There is nowhere left to report that stderr is gone.
    let _ = writeln!(io::stderr().lock(), "{}error:{} {}", style.error, style.reset, describe(error));
}

/// What happened, the causes below it, and the way out, on one line.
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
    // One error is one line, whatever a library put into it.
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_of_what_why_and_what_to_do() {
        let error = Error::io("could not read `x`", io::Error::other("disk\n on fire")).with_hint("buy a new one");
        assert_eq!(describe(&error), "could not read `x` — disk; on fire — buy a new one");
    }

    #[test]
    fn a_cause_already_in_the_text_is_not_repeated() {
        let error = Error::internal("open: disk on fire").with_source(io::Error::other("disk on fire"));
        assert_eq!(describe(&error), "open: disk on fire");
    }
}
