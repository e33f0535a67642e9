//! Outcome of a tool, before it becomes a response.

use sandbar_core::{ContentBlock, Error};

/// Outcome of a tool.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other, and the contract names them"
)]
pub(crate) struct Outcome {
    pub(crate) content: String,
    pub(crate) blocks: Vec<ContentBlock>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) is_error: bool,
    pub(crate) timed_out: bool,
    pub(crate) oom_killed: bool,
    pub(crate) truncated: bool,
}

impl Outcome {
    /// Creates a text answer.
    pub(crate) fn text(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// Creates a failure with a text.
    pub(crate) fn failed(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            is_error: true,
            ..Self::default()
        }
    }

    /// Creates a failure from an error.
    pub(crate) fn of_error(error: &Error) -> Self {
        let mut content = error.chain();
        if let Some(hint) = error.hint() {
            content.push_str("\nhint: ");
            content.push_str(hint);
        }
        Self::failed(content)
    }
}
