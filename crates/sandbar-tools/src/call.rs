//! One call, from its parameters to its answer.

use std::time::Instant;

use sandbar_core::{Error, ErrorCode, Result, ToolParams, ToolResponse, ToolTier};

use crate::{ToolContext, outcome::Outcome, registry::AnyTool};

/// A call whose parameters are known to be good.
#[derive(Debug)]
pub struct PreparedCall {
    tool: AnyTool,
}

impl PreparedCall {
    /// Reads the parameters of a tool. An unknown tool, and a parameter that is wrong, missing or unknown, is
    /// `InvalidArgument` naming the field.
    pub fn new(tool: &str, params: ToolParams) -> Result<Self> {
        Ok(Self { tool: AnyTool::read(tool, params)? })
    }

    pub fn tier(&self) -> ToolTier {
        self.tool.tier()
    }

    /// Does the call. A tool that fails gives an answer that says how; an error means that there is no answer: the
    /// session was not there to be worked on, the call was cancelled, or something is broken.
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

/// The answer an error amounts to, when it is one the agent can do something about.
fn failure(error: Error) -> Result<Outcome> {
    match error.code() {
        ErrorCode::FileNotFound | ErrorCode::InvalidArgument | ErrorCode::PermissionDenied | ErrorCode::StorageFull => {
            Ok(Outcome::of_error(&error))
        }
        ErrorCode::Timeout => Ok(Outcome { timed_out: true, ..Outcome::of_error(&error) }),
        _ => Err(error),
    }
}
