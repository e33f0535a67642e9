//! Errors of environments.

use std::fmt;

use sandbar_core::{Error, ErrorCode, SessionId};

use crate::{EnvironmentState, Feature};

/// Result of any call to an environment.
pub type Result<T, E = EnvironmentError> = std::result::Result<T, E>;

/// Error of an environment: the cases an agent loop distinguishes, and any other error.
#[derive(Debug)]
pub enum EnvironmentError {
    /// The environment lacks this feature. Nothing was done.
    CapabilityNotSupported { feature: Feature, reason: String },
    /// The provider has no such session.
    SessionNotFound { session: SessionId },
    /// The environment is paused, destroyed or otherwise not active.
    NotActive {
        session: SessionId,
        state: EnvironmentState,
    },
    /// The provider cannot be reached or is overloaded. The call may be retried.
    ProviderUnavailable(Error),
    /// The provider has its maximum number of environments.
    SessionLimitReached(Error),
    /// Any other error.
    Failed(Error),
}

impl EnvironmentError {
    /// Returns the underlying error, if there is one.
    pub fn cause(&self) -> Option<&Error> {
        match self {
            Self::ProviderUnavailable(error)
            | Self::SessionLimitReached(error)
            | Self::Failed(error) => Some(error),
            Self::CapabilityNotSupported { .. }
            | Self::SessionNotFound { .. }
            | Self::NotActive { .. } => None,
        }
    }

    /// Returns a hint on how to avoid the error.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::CapabilityNotSupported { .. } => Some("check `capabilities()` first"),
            Self::NotActive {
                state: EnvironmentState::Paused,
                ..
            } => Some("call `resume()`"),
            Self::NotActive { .. } | Self::SessionNotFound { .. } => None,
            Self::ProviderUnavailable(error)
            | Self::SessionLimitReached(error)
            | Self::Failed(error) => error.hint(),
        }
    }

    /// Translates an error that does not depend on a session.
    pub(crate) fn of_provider(error: Error) -> Self {
        match error.code() {
            ErrorCode::Unavailable | ErrorCode::TooManyCalls => Self::ProviderUnavailable(error),
            ErrorCode::MaxSessionsReached => Self::SessionLimitReached(error),
            _ => Self::Failed(error),
        }
    }

    /// Translates an error of a lookup of a session.
    pub(crate) fn of_session(error: Error, session: &SessionId) -> Self {
        match error.code() {
            ErrorCode::SessionNotFound => Self::SessionNotFound {
                session: session.clone(),
            },
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
            Self::CapabilityNotSupported { feature, reason } => {
                write!(f, "`{feature}` is not supported: {reason}")
            }
            Self::SessionNotFound { session } => write!(f, "session `{session}` does not exist"),
            Self::NotActive { session, state } => write!(f, "session `{session}` is {state}"),
            Self::ProviderUnavailable(error)
            | Self::SessionLimitReached(error)
            | Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EnvironmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().and_then(std::error::Error::source)
    }
}
