//! The shells, and the entry point that their scripts call.

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use clap::{CommandFactory as _, ValueEnum};

use super::{Answer, bash, fish, live, typed::complete, zsh};
use crate::cli::Cli;

/// First argument of the calls that the scripts make. Not a verb of the command line.
const CALL: &str = "__complete";

/// Shell with a completion script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// Returns the script for the shell to load.
    pub(crate) const fn script(self) -> &'static str {
        match self {
            Self::Bash => bash::SCRIPT,
            Self::Zsh => zsh::SCRIPT,
            Self::Fish => fish::SCRIPT,
        }
    }
}

/// Answers the call of a completion script; `None` for any other command line. Errors are not
/// printed: the output would end up in the line being typed.
pub(crate) fn serve(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments
        .into_iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned());
    if arguments.next()? != CALL {
        return None;
    }
    let shell = arguments
        .next()
        .and_then(|name| Shell::from_str(&name, false).ok());
    let rest: Vec<String> = arguments.collect();
    let text = match shell {
        Some(Shell::Bash) => bash::respond(&rest),
        Some(Shell::Zsh) => zsh::respond(&rest),
        Some(Shell::Fish) => fish::respond(&rest),
        None => None,
    };
    let _ = io::stdout()
        .lock()
        .write_all(text.unwrap_or_default().as_bytes());
    Some(ExitCode::SUCCESS)
}

/// Returns the completions of a command line: the first word is the program, the last one is being
/// typed.
pub(super) fn respond_to(words: &[String]) -> Option<Answer> {
    let (current, before) = words.split_last()?;
    Some(complete(
        &Cli::command(),
        before.get(1..)?,
        current,
        live::names,
    ))
}
