//! The audit log of a session: who did what, when, and what came of it.

use std::{fmt, str::FromStr, sync::Arc};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{Error, PageRequest, Result, SessionId};

/// Who does something. The audit log names them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Actor(Arc<str>);

impl Actor {
    /// Longest name, in bytes.
    pub const LONGEST: usize = 256;

    /// Accepts any text without control characters.
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > Self::LONGEST || name.chars().any(char::is_control) {
            return Err(Error::invalid("actor", format!("`{}` is no name of an actor", name.escape_debug()))
                .with_hint(format!("use 1 to {} bytes without control characters", Self::LONGEST)));
        }
        Ok(Self(name.into()))
    }

    /// The program the host is part of; who acts when nobody else is named.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// The host itself, when nobody asked.
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

/// One thing that happened to a session.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// It grows from entry to entry, and is never used again. Other sessions count along.
    pub number: u64,
    pub session: SessionId,
    pub at: Timestamp,
    pub who: Actor,
    /// The name of a call, or of something the host did by itself.
    pub what: String,
    /// [`OK`](Self::OK), [`FAILED`](Self::FAILED), or the name of an [`ErrorCode`](crate::ErrorCode).
    pub outcome: String,
    /// What people want to know about it later. Never an environment, never the content of a file.
    pub detail: Map<String, Value>,
    /// The hash of this entry and of all before it, in hex.
    pub chain: String,
}

impl AuditEntry {
    /// It was done.
    pub const OK: &'static str = "ok";
    /// A tool did its work, and its answer is that it failed.
    pub const FAILED: &'static str = "failed";
}

/// In which order entries are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditOrder {
    #[default]
    OldestFirst,
    NewestFirst,
}

/// Which entries of a log to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    pub order: AuditOrder,
    /// Only those with a higher number: what came since somebody looked last.
    pub after: Option<u64>,
    pub page: PageRequest,
}

/// Whether a log is as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditVerdict {
    /// Every entry follows from the one before. Entries taken off the end leave no gap: whoever wants to notice that
    /// keeps `head`, and looks for an entry with this chain later.
    Intact {
        entries: u64,
        /// The chain of the last entry.
        head: Option<String>,
    },
    /// This is the first entry that does not follow: it was changed, or one before it was changed, removed or moved.
    Broken { number: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_actor_is_there_short_and_printable() {
        for good in ["host", "token:0a1b2c3d@127.0.0.1", &"x".repeat(256)] {
            assert_eq!(good.parse::<Actor>().unwrap().as_str(), good);
        }
        for bad in ["", "a\nb", &"x".repeat(257)] {
            assert_eq!(Actor::new(bad).unwrap_err().field(), Some("actor"));
        }
    }
}
