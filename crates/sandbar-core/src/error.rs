//! The one error everything reports, and the table that says how each code looks from outside.

use std::{borrow::Cow, fmt};

/// Result of any Sandbar operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as a stable code. Names are part of the wire contract and never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    SessionNotFound,
    SessionExists,
    SessionPaused,
    SessionDestroying,
    ProcessNotFound,
    ProcessReadyTimeout,
    RollbackInProgress,
    InvalidState,
    MaxSessionsReached,
    ToolsInFlight,
    SnapshotsNotAvailable,
    SnapshotNotFound,
    SnapshotExists,
    BaseNotFound,
    BaseExists,
    FileNotFound,
    SecretNotFound,
    TokenNotFound,
    TokenExists,
    UserNotFound,
    StorageFull,
    SlowReader,
    TooManyCalls,
    InvalidArgument,
    Timeout,
    Unavailable,
    Unauthenticated,
    PermissionDenied,
    Internal,
}

impl ErrorCode {
    /// Every code, in the order of the reference page.
    pub const ALL: [Self; 29] = [
        Self::SessionNotFound,
        Self::SessionExists,
        Self::SessionPaused,
        Self::SessionDestroying,
        Self::ProcessNotFound,
        Self::ProcessReadyTimeout,
        Self::RollbackInProgress,
        Self::InvalidState,
        Self::MaxSessionsReached,
        Self::ToolsInFlight,
        Self::SnapshotsNotAvailable,
        Self::SnapshotNotFound,
        Self::SnapshotExists,
        Self::BaseNotFound,
        Self::BaseExists,
        Self::FileNotFound,
        Self::SecretNotFound,
        Self::TokenNotFound,
        Self::TokenExists,
        Self::UserNotFound,
        Self::StorageFull,
        Self::SlowReader,
        Self::TooManyCalls,
        Self::InvalidArgument,
        Self::Timeout,
        Self::Unavailable,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::Internal,
    ];

    /// The name clients match on.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SessionNotFound => "SessionNotFound",
            Self::SessionExists => "SessionExists",
            Self::SessionPaused => "SessionPaused",
            Self::SessionDestroying => "SessionDestroying",
            Self::ProcessNotFound => "ProcessNotFound",
            Self::ProcessReadyTimeout => "ProcessReadyTimeout",
            Self::RollbackInProgress => "RollbackInProgress",
            Self::InvalidState => "InvalidState",
            Self::MaxSessionsReached => "MaxSessionsReached",
            Self::ToolsInFlight => "ToolsInFlight",
            Self::SnapshotsNotAvailable => "SnapshotsNotAvailable",
            Self::SnapshotNotFound => "SnapshotNotFound",
            Self::SnapshotExists => "SnapshotExists",
            Self::BaseNotFound => "BaseNotFound",
            Self::BaseExists => "BaseExists",
            Self::FileNotFound => "FileNotFound",
            Self::SecretNotFound => "SecretNotFound",
            Self::TokenNotFound => "TokenNotFound",
            Self::TokenExists => "TokenExists",
            Self::UserNotFound => "UserNotFound",
            Self::StorageFull => "StorageFull",
            Self::SlowReader => "SlowReader",
            Self::TooManyCalls => "TooManyCalls",
            Self::InvalidArgument => "InvalidArgument",
            Self::Timeout => "Timeout",
            Self::Unavailable => "Unavailable",
            Self::Unauthenticated => "Unauthenticated",
            Self::PermissionDenied => "PermissionDenied",
            Self::Internal => "Internal",
        }
    }

    /// The code a client sent us back, if it is one of ours.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == name)
    }

    /// The Connect / gRPC status code this maps to, in Connect's spelling.
    pub const fn rpc_code(self) -> &'static str {
        match self {
            Self::SessionNotFound
            | Self::ProcessNotFound
            | Self::SnapshotNotFound
            | Self::BaseNotFound
            | Self::FileNotFound
            | Self::SecretNotFound
            | Self::TokenNotFound
            | Self::UserNotFound => "not_found",
            Self::SessionExists | Self::SnapshotExists | Self::BaseExists | Self::TokenExists => "already_exists",
            Self::SessionPaused
            | Self::SessionDestroying
            | Self::InvalidState
            | Self::RollbackInProgress
            | Self::ToolsInFlight
            | Self::SnapshotsNotAvailable => "failed_precondition",
            Self::MaxSessionsReached | Self::StorageFull | Self::SlowReader | Self::TooManyCalls => {
                "resource_exhausted"
            }
            Self::InvalidArgument => "invalid_argument",
            Self::Timeout | Self::ProcessReadyTimeout => "deadline_exceeded",
            Self::Unavailable => "unavailable",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error with a stable code, what happened, and — where we know it — the field at fault and the way out.
///
/// `message` is a lower-case fragment that names the object; `hint` is what the reader can do about it.
#[derive(Debug)]
pub struct Error {
    code: ErrorCode,
    message: String,
    field: Option<Cow<'static, str>>,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), field: None, hint: None, source: None }
    }

    /// A bad value in `field` of a request.
    pub fn invalid(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message).with_field(field)
    }

    /// A fault of ours or of the machine's, not of the caller's.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    /// An operating-system failure. A full disk, a spent quota and a forbidden call keep their meaning.
    pub fn io(message: impl Into<String>, source: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let code = match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ErrorCode::StorageFull,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => ErrorCode::PermissionDenied,
            _ => ErrorCode::Internal,
        };
        Self::new(code, message).with_source(source)
    }

    #[must_use]
    pub fn with_field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The message alone, without its causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The message and every cause below it, on one line.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_again_by_its_name() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_name(code.as_str()), Some(code));
        }
        assert_eq!(ErrorCode::from_name("Nonsense"), None);
    }

    #[test]
    fn a_full_disk_keeps_its_meaning_through_the_io_constructor() {
        for errno in [28, 122] {
            let error = Error::io("write pool", std::io::Error::from_raw_os_error(errno));
            assert_eq!(error.code(), ErrorCode::StorageFull);
        }
    }

    #[test]
    fn the_chain_names_every_cause_once() {
        let error = Error::io("open `x`", std::io::Error::other("disk on fire"));
        assert_eq!(error.chain(), "open `x`: disk on fire");
        assert_eq!(error.to_string(), "open `x`");
    }
}
