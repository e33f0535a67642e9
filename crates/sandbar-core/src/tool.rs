//! Tools: what is asked for, what comes back.

use std::{fmt, str::FromStr, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{Error, Resources, Result, SnapshotName};

/// The parameters of a tool call: a JSON object.
pub type ToolParams = Map<String, Value>;

/// The caller's name for one tool call. A call that is repeated under the same name in the same session is done once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolCallId(String);

impl ToolCallId {
    /// Longest id, in bytes.
    pub const LONGEST: usize = 256;

    /// Accepts any text without control characters.
    pub fn new(id: impl Into<String>) -> Result<Self> {
        let id = id.into();
        let refuse = |why: &str| {
            Err(Error::invalid("tool_call_id", format!("the tool call id {why}"))
                .with_hint("give every call an id of its own, and the same id when you repeat a call"))
        };
        if id.is_empty() {
            return refuse("is missing");
        }
        if id.len() > Self::LONGEST {
            return refuse(&format!("is {} bytes long, at most {} are allowed", id.len(), Self::LONGEST));
        }
        if id.chars().any(char::is_control) {
            return refuse("holds a control character");
        }
        Ok(Self(id))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ToolCallId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRequest {
    pub tool: String,
    pub call: ToolCallId,
    pub params: ToolParams,
    /// Limits of this call, field by field over those of the session.
    pub resources: Resources,
}

/// Where a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolTier {
    /// In the host's process, on the files of the session.
    Host,
    /// In the sandbox.
    Sandbox,
}

impl ToolTier {
    /// As it is written down: 1 or 2.
    pub const fn number(self) -> u32 {
        match self {
            Self::Host => 1,
            Self::Sandbox => 2,
        }
    }

    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Host),
            2 => Some(Self::Sandbox),
            _ => None,
        }
    }
}

/// A tool that can be called.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInfo {
    pub name: String,
    pub description: String,
    pub tier: ToolTier,
    /// JSON Schema of its parameters.
    pub schema: Value,
}

/// Something a tool says while it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolProgress {
    pub content: String,
    /// It came from the error stream.
    pub is_error: bool,
}

/// Part of an answer that text alone cannot carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentBlock {
    Text(String),
    Image { media_type: String, data: Bytes },
}

/// What a tool call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other, and the contract names them")]
pub struct ToolResponse {
    /// The answer as text.
    pub content: String,
    /// What text cannot carry, such as an image.
    pub content_blocks: Vec<ContentBlock>,
    /// Of the command that ran, when one did.
    pub exit_code: Option<i32>,
    /// The snapshot taken after the call, when one was.
    pub snapshot_id: Option<SnapshotName>,
    pub duration: Duration,
    pub tier: ToolTier,
    /// The tool has failed; `content` says how.
    pub is_error: bool,
    pub timed_out: bool,
    /// The kernel killed what ran, because a memory limit was reached.
    pub oom_killed: bool,
    /// There was more output than is kept.
    pub truncated: bool,
}

/// Something that happens during a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEvent {
    Progress(ToolProgress),
    /// The end; exactly one, and last.
    Finished(ToolResponse),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_id_is_there_short_and_printable() {
        for good in ["toolu_01AbC", "call 7/é", &"x".repeat(256)] {
            assert_eq!(ToolCallId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a\nb", "\0", &"x".repeat(257)] {
            assert_eq!(ToolCallId::new(bad).unwrap_err().field(), Some("tool_call_id"));
        }
    }
}
