//! Completions, in the form that the scripts read.

use std::fmt::Write as _;

/// One possible completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) value: String,
    /// Description, for shells that show one.
    pub(crate) help: String,
}

impl Candidate {
    pub(crate) fn new(value: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            help: help.into(),
        }
    }

    pub(crate) fn plain(value: impl Into<String>) -> Self {
        Self::new(value, "")
    }
}

/// Local paths, which the shell completes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paths {
    Files,
    Directories,
}

/// All possible completions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) paths: Option<Paths>,
    /// Whether the word continues, so that no space is added.
    pub(crate) continues: bool,
}

impl Answer {
    pub(crate) fn of(candidates: Vec<Candidate>) -> Self {
        Self {
            candidates,
            ..Self::default()
        }
    }

    pub(crate) fn of_paths(paths: Paths) -> Self {
        Self {
            paths: Some(paths),
            ..Self::default()
        }
    }

    /// Keeps the candidates that start with the typed text.
    pub(crate) fn starting_with(mut self, typed: &str) -> Self {
        self.candidates
            .retain(|candidate| candidate.value.starts_with(typed));
        self
    }

    /// Returns the answer as lines: first the mode for the shell, then the candidates.
    pub(crate) fn lines(&self, mut line: impl FnMut(&Candidate) -> String) -> String {
        let paths = match self.paths {
            Some(Paths::Files) => "files",
            Some(Paths::Directories) => "directories",
            None => "words",
        };
        let mut text = format!("{paths}{}\n", if self.continues { " nospace" } else { "" });
        for candidate in &self.candidates {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", line(candidate));
        }
        text
    }

    /// Returns the lines with descriptions after a tab.
    pub(crate) fn lines_with_help(&self) -> String {
        self.lines(|Candidate { value, help }| {
            if help.is_empty() {
                value.clone()
            } else {
                format!("{value}\t{}", one_line(help))
            }
        })
    }
}

fn one_line(help: &str) -> &str {
    help.lines().next().unwrap_or_default()
}
