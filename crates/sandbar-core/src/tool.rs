//! Tool calls: requests, progress and responses.

use std::{fmt, str::FromStr, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{Error, Resources, Result, SnapshotName};

/// Parameters of a tool call: a JSON object.
pub type ToolParams = Map<String, Value>;

/// Idempotency key of a tool call. A call that is repeated with the same id in the same session is
/// executed once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolCallId(String);

impl ToolCallId {
    pub const MAX_BYTES: usize = 256;

    /// Accepts any text without control characters.
    pub fn new(id: impl Into<String>) -> Result<Self> {
        let id = id.into();
        let refuse = |why: &str| {
            Err(
                Error::invalid("tool_call_id", format!("the tool call id {why}")).with_hint(
                    "give every call an id of its own, and the same id when you repeat a call",
                ),
            )
        };
        if id.is_empty() {
            return refuse("is missing");
        }
        if id.len() > Self::MAX_BYTES {
            return refuse(&format!(
                "is {} bytes long, at most {} are allowed",
                id.len(),
                Self::MAX_BYTES
            ));
        }
        if id.chars().any(char::is_control) {
            return refuse("has a control character");
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
    /// Limits of this call, over those of the session.
    pub resources: Resources,
}

/// Place of execution of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolTier {
    /// In the host process, on the files of the session.
    Host,
    /// In the sandbox.
    Sandbox,
}

impl ToolTier {
    /// Returns the wire number: 1 or 2.
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

/// Output of a tool while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolProgress {
    pub content: String,
    /// It is from stderr.
    pub is_error: bool,
}

/// Part of a response that is not text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentBlock {
    Text(String),
    Image { media_type: String, data: Bytes },
}

/// Response of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other, and the contract names them"
)]
pub struct ToolResponse {
    /// Response as text.
    pub content: String,
    /// Parts that are not text, such as an image.
    pub content_blocks: Vec<ContentBlock>,
    /// Exit code of the command, if one ran.
    pub exit_code: Option<i32>,
    /// Snapshot taken after the call, if any.
    pub snapshot_id: Option<SnapshotName>,
    pub duration: Duration,
    pub tier: ToolTier,
    /// The tool has failed; `content` has the reason.
    pub is_error: bool,
    pub timed_out: bool,
    /// The OOM killer ended a process of the call, at a memory limit.
    pub oom_killed: bool,
    /// Output beyond the limit was dropped.
    pub truncated: bool,
}

/// Event of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEvent {
    Progress(ToolProgress),
    /// Response: sent once, as the last event.
    Finished(ToolResponse),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_call_id_is_limited_to_printable_text() {
        for good in ["toolu_01AbC", "call 7/é", &"x".repeat(256)] {
            assert_eq!(ToolCallId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a\nb", "\0", &"x".repeat(257)] {
            assert_eq!(
                ToolCallId::new(bad).unwrap_err().field(),
                Some("tool_call_id")
            );
        }
    }
}
