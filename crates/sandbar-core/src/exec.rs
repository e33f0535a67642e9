//! Commands: specification, output and exit status.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Error, Resources, Result, user::validate_user};

/// Command to run in a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecSpec {
    /// Program and arguments; no shell is involved.
    pub argv: Vec<String>,
    /// Environment variables, in addition to those of the session.
    pub env: BTreeMap<String, String>,
    /// Working directory inside the sandbox; `/workspace` when absent.
    pub cwd: Option<String>,
    /// User, by name or uid of the session's `/etc/passwd`; `root` when absent.
    pub user: Option<String>,
    pub stdin: StdinMode,
    /// Run in a terminal of this size instead of with pipes: stdout and stderr are one stream.
    pub terminal: Option<TerminalSize>,
    /// Limits of this command; `wall_time` is its timeout.
    pub resources: Resources,
    pub end: CommandEnd,
}

impl ExecSpec {
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Checks that `execve` accepts the arguments and environment.
    pub fn validate(&self) -> Result<()> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(Error::invalid("argv", "`argv` has no program")
                .with_hint("give the program and its arguments, for example `[\"ls\", \"-l\"]`"));
        }
        if self.argv.iter().any(|argument| argument.contains('\0')) {
            return Err(Error::invalid("argv", "an argument contains NUL")
                .with_hint("pass such data on stdin"));
        }
        for (key, value) in &self.env {
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                return Err(Error::invalid(
                    "env",
                    format!("variable `{}` is not usable", key.escape_debug()),
                )
                .with_hint("names are not empty and hold no `=`; neither part holds NUL"));
            }
        }
        if self.cwd.as_ref().is_some_and(|cwd| cwd.contains('\0')) {
            return Err(Error::invalid("cwd", "the working directory contains NUL")
                .with_hint("use a plain path"));
        }
        validate_user(self.user.as_deref())?;
        self.resources.validate()
    }
}

/// Source of a command's stdin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StdinMode {
    /// `/dev/null`.
    #[default]
    Null,
    /// Bytes that the caller sends.
    Piped,
}

/// Condition for the end of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommandEnd {
    /// Its program has exited. Processes that it left continue, and their output is discarded.
    #[default]
    Exit,
    /// Its program has exited and every process has closed its output, as in a pipeline. No output
    /// of processes that it left is lost.
    Output,
}

/// Rows and columns of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

/// Event of a running command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    Stdout(Bytes),
    Stderr(Bytes),
    /// End of the command: sent once, as the last event.
    Exited(ExitStatus),
}

/// Exit status of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitStatus {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal that ended it, if one did.
    pub signal: Option<i32>,
    /// It was killed after its timeout.
    pub timed_out: bool,
    /// The OOM killer ended it or one of its children, at a memory limit.
    pub oom_killed: bool,
    /// Output beyond the limit was dropped.
    pub truncated: bool,
    pub duration: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_that_execve_rejects_is_refused() {
        ExecSpec::new(["ls", "-l"]).validate().unwrap();
        let mut bad_env = ExecSpec::new(["ls"]);
        bad_env.env.insert("A=B".into(), String::new());
        let bad_cwd = ExecSpec {
            cwd: Some("a\0b".into()),
            ..ExecSpec::new(["ls"])
        };
        let user = |name: &str| ExecSpec {
            user: Some(name.into()),
            ..ExecSpec::new(["ls"])
        };
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
