//! Where an environment is in its life.

use std::fmt;

use sandbar_core::SessionState;

/// Where an environment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EnvironmentState {
    Creating,
    Active,
    /// Nothing runs; it goes on with `resume`.
    Paused,
    Destroying,
    Destroyed,
    /// It is broken; destroy is what is left.
    Failed,
}

impl EnvironmentState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Destroying => "destroying",
            Self::Destroyed => "destroyed",
            Self::Failed => "failed",
        }
    }
}

impl From<SessionState> for EnvironmentState {
    fn from(state: SessionState) -> Self {
        match state {
            SessionState::Creating => Self::Creating,
            SessionState::Active => Self::Active,
            // What is put away for longer is no different to whoever wants to go on: `resume` brings it back.
            SessionState::Paused | SessionState::Hibernated => Self::Paused,
            SessionState::Destroying => Self::Destroying,
            SessionState::Failed => Self::Failed,
        }
    }
}

impl fmt::Display for EnvironmentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
