//! Configuration of a local provider.

use std::{path::PathBuf, time::Duration};

/// Isolation of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalIsolation {
    /// The native box, or an error, for root; no isolation for an ordinary user.
    #[default]
    Auto,
    /// The native box, or an error.
    Boxed,
    /// No isolation, for trusted use.
    Unboxed,
}

/// Configuration of a local provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalConfig {
    /// Directory that environments see as `/workspace`; it is not copied.
    pub directory: PathBuf,
    pub isolation: LocalIsolation,
    /// Timeout of a tool call.
    pub tool_timeout: Duration,
    /// Time that a pause waits for running tool calls.
    pub pause_drain_timeout: Duration,
}

impl LocalConfig {
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            isolation: LocalIsolation::default(),
            tool_timeout: Duration::from_mins(5),
            pause_drain_timeout: Duration::from_secs(30),
        }
    }

    #[must_use]
    pub fn with_isolation(self, isolation: LocalIsolation) -> Self {
        Self { isolation, ..self }
    }
}
