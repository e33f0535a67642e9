//! Commands: what to run, what comes out of it, how it ended.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Error, Resources, Result, user::validate_user};

/// A command to run in a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecSpec {
    /// Program and arguments; no shell is involved.
    pub argv: Vec<String>,
    /// Environment, over the session's own.
    pub env: BTreeMap<String, String>,
    /// Working directory inside the sandbox; `/workspace` when absent.
    pub cwd: Option<String>,
    /// Who runs it, by name or number of the session's own `/etc/passwd`; `root` when absent.
    pub user: Option<String>,
    pub stdin: StdinMode,
    /// A terminal of this size instead of pipes: output and errors come as one stream of output, stdin is what is typed.
    pub terminal: Option<TerminalSize>,
    /// Limits of this command; `wall_time` is its time-out.
    pub resources: Resources,
    pub end: CommandEnd,
}

impl ExecSpec {
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Checks what the types alone cannot: that the kernel could take these arguments.
    pub fn validate(&self) -> Result<()> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(Error::invalid("argv", "there is no program to run")
                .with_hint("give the program and its arguments, for example `[\"ls\", \"-l\"]`"));
        }
        if self.argv.iter().any(|argument| argument.contains('\0')) {
            return Err(Error::invalid("argv", "an argument contains NUL").with_hint("pass such data on stdin"));
        }
        for (key, value) in &self.env {
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                return Err(Error::invalid("env", format!("variable `{}` is not usable", key.escape_debug()))
                    .with_hint("names are not empty and hold no `=`; neither part holds NUL"));
            }
        }
        if self.cwd.as_ref().is_some_and(|cwd| cwd.contains('\0')) {
            return Err(Error::invalid("cwd", "the working directory contains NUL").with_hint("use a plain path"));
        }
        validate_user(self.user.as_deref())?;
        self.resources.validate()
    }
}

/// Where a command reads from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StdinMode {
    /// Nothing to read.
    #[default]
    Null,
    /// What the caller sends.
    Piped,
}

/// When a command has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommandEnd {
    /// When its program has exited. What that left running goes on, and nobody reads what it writes.
    #[default]
    Exit,
    /// When nobody has its output any more either, so that nothing is lost of what it left running: as in a pipeline.
    Output,
}

/// Rows and columns of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

/// Something a running command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    Stdout(Bytes),
    Stderr(Bytes),
    /// The end; exactly one, and last.
    Exited(ExitStatus),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitStatus {
    /// What it returned, when it returned.
    pub code: Option<i32>,
    /// The signal that ended it, when one did.
    pub signal: Option<i32>,
    /// It was killed because its time was up.
    pub timed_out: bool,
    /// The kernel killed it, or something it started, because a memory limit was reached.
    pub oom_killed: bool,
    /// Output beyond the limit was dropped.
    pub truncated: bool,
    pub duration: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_the_kernel_would_refuse_is_refused_and_the_field_is_named() {
        ExecSpec::new(["ls", "-l"]).validate().unwrap();
        let mut bad_env = ExecSpec::new(["ls"]);
        bad_env.env.insert("A=B".into(), String::new());
        let bad_cwd = ExecSpec { cwd: Some("a\0b".into()), ..ExecSpec::new(["ls"]) };
        let user = |name: &str| ExecSpec { user: Some(name.into()), ..ExecSpec::new(["ls"]) };
        for (spec, field) in [
            (user(""), "user"),
            (user("a:b"), "user"),
            (user("a\0b"), "user"),
            (ExecSpec::default(), "argv"),
            (ExecSpec::new([""]), "argv"),
            (ExecSpec::new(["ls", "a\0b"]), "argv"),
            (bad_env, "env"),
            (bad_cwd, "cwd"),
        ] {
            let error = spec.validate().unwrap_err();
            assert_eq!(error.field(), Some(field));
            assert!(error.hint().is_some());
        }
    }
}
