//! Lifecycle state of an environment.

use std::fmt;

use sandbar_core::SessionState;

/// Lifecycle state of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EnvironmentState {
    Creating,
    Active,
    /// All processes are frozen until `resume`.
    Paused,
    Destroying,
    Destroyed,
    /// Unusable; it can only be destroyed.
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
            // `resume` also wakes a hibernated session.
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
