//! A tool call, from parameters to answer.

use std::time::Instant;

use sandbar_core::{Error, ErrorCode, Result, ToolParams, ToolResponse, ToolTier};

use crate::{ToolContext, outcome::Outcome, registry::AnyTool};

/// Call with valid parameters.
#[derive(Debug)]
pub struct PreparedCall {
    tool: AnyTool,
}

impl PreparedCall {
    /// Parses the parameters of a tool. An unknown tool, and a wrong, missing or unknown parameter,
    /// is `InvalidArgument` and names the field.
    pub fn new(tool: &str, params: ToolParams) -> Result<Self> {
        Ok(Self {
            tool: AnyTool::read(tool, params)?,
        })
    }

    pub fn tier(&self) -> ToolTier {
        self.tool.tier()
    }

    /// Executes the call. A failing tool returns an answer that describes the failure. An error
    /// means that there is no answer: the session was not available, the call was cancelled, or an
    /// internal error occurred.
    pub async fn run(self, context: &ToolContext) -> Result<ToolResponse> {
        let tier = self.tier();
        let started = Instant::now();
        let outcome = match self.tool.run(context).await {
            Ok(outcome) => outcome,
            Err(error) => failure(error)?,
        };
        Ok(ToolResponse {
            content: outcome.content,
            content_blocks: outcome.blocks,
            exit_code: outcome.exit_code,
            snapshot_id: None,
            duration: started.elapsed(),
            tier,
            is_error: outcome.is_error,
            timed_out: outcome.timed_out,
            oom_killed: outcome.oom_killed,
            truncated: outcome.truncated,
        })
    }
}

/// Converts an error to an answer, if the agent can act on it.
fn failure(error: Error) -> Result<Outcome> {
    match error.code() {
        ErrorCode::FileNotFound
        | ErrorCode::InvalidArgument
        | ErrorCode::PermissionDenied
        | ErrorCode::StorageFull => Ok(Outcome::of_error(&error)),
        ErrorCode::Timeout => Ok(Outcome {
            timed_out: true,
            ..Outcome::of_error(&error)
        }),
        _ => Err(error),
    }
}
