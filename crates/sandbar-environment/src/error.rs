//! What can go wrong with an environment.

use std::fmt;

use sandbar_core::{Error, ErrorCode, SessionId};

use crate::{EnvironmentState, Feature};

/// Result of any call to an environment.
pub type Result<T, E = EnvironmentError> = std::result::Result<T, E>;

/// What went wrong: the cases an agent loop decides by, and everything else as it was raised.
#[derive(Debug)]
pub enum EnvironmentError {
    /// This environment cannot do that. Nothing was done.
    CapabilityNotSupported { feature: Feature, reason: String },
    /// The provider knows no such session.
    SessionNotFound { session: SessionId },
    /// The environment is there, or was, and cannot be worked with now.
    NotActive { session: SessionId, state: EnvironmentState },
    /// The provider could not be reached, or could not take the call now. It may be tried again.
    ProviderUnavailable(Error),
    /// There is no room for another environment.
    SessionLimitReached(Error),
    /// Anything else.
    Failed(Error),
}

impl EnvironmentError {
    /// The error below, where there is one.
    pub fn cause(&self) -> Option<&Error> {
        match self {
            Self::ProviderUnavailable(error) | Self::SessionLimitReached(error) | Self::Failed(error) => Some(error),
            Self::CapabilityNotSupported { .. } | Self::SessionNotFound { .. } | Self::NotActive { .. } => None,
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::CapabilityNotSupported { .. } => Some("ask `capabilities()` first"),
            Self::NotActive { state: EnvironmentState::Paused, .. } => Some("call `resume()`"),
            Self::NotActive { .. } | Self::SessionNotFound { .. } => None,
            Self::ProviderUnavailable(error) | Self::SessionLimitReached(error) | Self::Failed(error) => error.hint(),
        }
    }

    /// What an error means whichever session it is about.
    pub(crate) fn of_provider(error: Error) -> Self {
        match error.code() {
            ErrorCode::Unavailable | ErrorCode::TooManyCalls => Self::ProviderUnavailable(error),
            ErrorCode::MaxSessionsReached => Self::SessionLimitReached(error),
            _ => Self::Failed(error),
        }
    }

    /// What an error means when a session was looked for.
    pub(crate) fn of_session(error: Error, session: &SessionId) -> Self {
        match error.code() {
            ErrorCode::SessionNotFound => Self::SessionNotFound { session: session.clone() },
            _ => Self::of_provider(error),
        }
    }
}

impl From<Error> for EnvironmentError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CapabilityNotSupported { feature, reason } => write!(f, "`{feature}` is not supported: {reason}"),
            Self::SessionNotFound { session } => write!(f, "there is no session `{session}`"),
            Self::NotActive { session, state } => write!(f, "session `{session}` is {state}"),
            Self::ProviderUnavailable(error) | Self::SessionLimitReached(error) | Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EnvironmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().and_then(std::error::Error::source)
    }
}
