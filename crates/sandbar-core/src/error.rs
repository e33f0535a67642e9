//! The error type of every crate.

use std::{borrow::Cow, fmt};

use crate::{ErrorCode, SessionId};

/// Result of any Sandbar operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with a stable code, a message and, where known, the field at fault and a hint.
///
/// `message` is a lower-case fragment that names the object and the problem; `hint` says what the
/// reader can do about it.
#[derive(Debug)]
pub struct Error {
    code: ErrorCode,
    message: String,
    field: Option<Cow<'static, str>>,
    hint: Option<String>,
    session: Option<SessionId>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            field: None,
            hint: None,
            session: None,
            source: None,
        }
    }

    /// Returns an error for a bad value in `field` of a request.
    pub fn invalid(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message).with_field(field)
    }

    /// Returns an error for a fault of the host or the machine, not of the caller.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    /// Returns an error for a failed system call. `ENOSPC`, `EDQUOT`, `EACCES`, `EPERM` and `EROFS`
    /// get codes of their own; everything else is [`ErrorCode::Internal`].
    pub fn io(message: impl Into<String>, source: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let code = match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ErrorCode::StorageFull,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                ErrorCode::PermissionDenied
            }
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

    /// Names the session the error is about.
    #[must_use]
    pub fn with_session(mut self, session: &SessionId) -> Self {
        self.session = Some(session.clone());
        self
    }

    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the message without its causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns the session the error is about, if it was set.
    pub fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// Returns the message and every cause below it, on one line.
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
        self.source
            .as_deref()
            .map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_error_of_a_full_disk_is_storage_full() {
        for errno in [28, 122] {
            let error = Error::io("write pool", std::io::Error::from_raw_os_error(errno));
            assert_eq!(error.code(), ErrorCode::StorageFull);
        }
    }

    #[test]
    fn chain_names_every_cause_once() {
        let error = Error::io("open `x`", std::io::Error::other("disk on fire"));
        assert_eq!(error.chain(), "open `x`: disk on fire");
        assert_eq!(error.to_string(), "open `x`");
    }
}
