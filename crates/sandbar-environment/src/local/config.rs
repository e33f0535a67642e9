//! What a local provider is told.

use std::{path::PathBuf, time::Duration};

/// The walls around commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalIsolation {
    /// The native box for root, who gets it or an error; none for an ordinary user.
    #[default]
    Auto,
    /// The native box, or an error.
    Boxed,
    /// None: for trusted use.
    Unboxed,
}

/// What a local provider is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalConfig {
    /// What environments have as `/workspace`. It is worked on as it is, not on a copy.
    pub directory: PathBuf,
    pub isolation: LocalIsolation,
    /// The longest a tool call may take.
    pub tool_timeout: Duration,
    /// How long a pause waits for tools that are under way.
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
