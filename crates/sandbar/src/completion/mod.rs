//! Shell completion.
//!
//! The script of a shell only shows what it is told: it calls `sandbar __complete` with what was typed so far, and the
//! answer is made here, from the definitions of the verbs and, for names, from the host. So a script never grows old, and
//! three shells complete the same.

mod answer;
mod bash;
mod fish;
mod line;
mod live;
mod source;
mod typed;
mod zsh;

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

pub(crate) use answer::{Answer, Candidate};
use clap::{CommandFactory as _, ValueEnum};
use typed::complete;

use crate::cli::Cli;

/// What the scripts call. It is no verb: nobody types it.
const CALL: &str = "__complete";

/// A shell that can complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// What the shell is to load.
    pub(crate) const fn script(self) -> &'static str {
        match self {
            Self::Bash => bash::SCRIPT,
            Self::Zsh => zsh::SCRIPT,
            Self::Fish => fish::SCRIPT,
        }
    }
}

/// Answers a shell, when it is a shell that calls. Whatever goes wrong, nothing is said: somebody is typing.
pub(crate) fn serve(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    if arguments.next()? != CALL {
        return None;
    }
    let shell = arguments.next().and_then(|name| Shell::from_str(&name, false).ok());
    let rest: Vec<String> = arguments.collect();
    let text = match shell {
        Some(Shell::Bash) => bash::respond(&rest),
        Some(Shell::Zsh) => zsh::respond(&rest),
        Some(Shell::Fish) => fish::respond(&rest),
        None => None,
    };
    let _ = io::stdout().lock().write_all(text.unwrap_or_default().as_bytes());
    Some(ExitCode::SUCCESS)
}

/// What completes these words, of which the first is the program and the last is being typed.
fn respond_to(words: &[String]) -> Option<Answer> {
    let (current, before) = words.split_last()?;
    Some(complete(&Cli::command(), before.get(1..)?, current, live::names))
}
