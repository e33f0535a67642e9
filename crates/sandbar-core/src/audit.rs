//! The audit log of a session: actor, operation, time and outcome of every change.

use std::{fmt, str::FromStr, sync::Arc};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{Error, PageRequest, Result, SessionId};

/// Name of a caller or of the host in the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Actor(Arc<str>);

impl Actor {
    pub const MAX_BYTES: usize = 256;

    /// Accepts any text without control characters.
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > Self::MAX_BYTES || name.chars().any(char::is_control) {
            return Err(Error::invalid(
                "actor",
                format!("actor name `{}` is not usable", name.escape_debug()),
            )
            .with_hint(format!(
                "use 1 to {} bytes without control characters",
                Self::MAX_BYTES
            )));
        }
        Ok(Self(name.into()))
    }

    /// Returns the actor of calls from the process that runs the host, the default.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// Returns the actor of changes that the host makes by itself, such as expiry.
    pub fn host() -> Self {
        Self("host".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Actor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

/// Entry of the audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// Increases from entry to entry, over all sessions of the host, and is never reused.
    pub number: u64,
    pub session: SessionId,
    pub at: Timestamp,
    pub who: Actor,
    /// Name of a call, or of an operation of the host.
    pub what: String,
    /// [`OK`](Self::OK), [`FAILED`](Self::FAILED), or the name of an
    /// [`ErrorCode`](crate::ErrorCode).
    pub outcome: String,
    /// Further facts. Never environment variables, never the content of a file.
    pub detail: Map<String, Value>,
    /// Hash over this entry and all before it, in hex.
    pub chain: String,
}

impl AuditEntry {
    /// Outcome of a call that succeeded.
    pub const OK: &'static str = "ok";
    /// Outcome of a tool call that was executed and reported a failure.
    pub const FAILED: &'static str = "failed";
}

/// Order of the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditOrder {
    #[default]
    OldestFirst,
    NewestFirst,
}

/// Selection of audit entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    pub order: AuditOrder,
    /// Only entries with a higher number, to continue after an earlier query.
    pub after: Option<u64>,
    pub page: PageRequest,
}

/// Result of verifying the hash chain of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditVerdict {
    /// The chain is complete. It does not show entries that were removed at the end: to detect
    /// that, store `head` and check later that an entry still has this chain.
    Intact {
        entries: u64,
        /// Chain of the last entry.
        head: Option<String>,
    },
    /// First entry that does not match the chain: it, or an entry before it, was changed, removed
    /// or moved.
    Broken { number: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actor_name_is_limited_to_printable_text() {
        for good in ["host", "token:0a1b2c3d@127.0.0.1", &"x".repeat(256)] {
            assert_eq!(good.parse::<Actor>().unwrap().as_str(), good);
        }
        for bad in ["", "a\nb", &"x".repeat(257)] {
            assert_eq!(Actor::new(bad).unwrap_err().field(), Some("actor"));
        }
    }
}
