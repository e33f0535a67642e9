//! A tool call, from parameters to answer.

use std::time::{Duration, Instant};

use sandbar_core::{Error, ErrorCode, Result, ToolParams, ToolProgress, ToolResponse, ToolTier};
use sandbar_tree::SessionTree;

use crate::{ToolContext, context::HostSide, outcome::Outcome, registry::AnyTool};

/// Call with valid parameters.
#[derive(Debug)]
pub struct PreparedCall {
    tool: AnyTool,
    /// Name and parameters of a tool that walks trees, to be sent to a worker process.
    walk: Option<(String, ToolParams)>,
}

impl PreparedCall {
    /// Parses the parameters of a tool. An unknown tool, and a wrong, missing or unknown parameter,
    /// is `InvalidArgument` and names the field.
    pub fn new(tool: &str, params: ToolParams) -> Result<Self> {
        let walk = AnyTool::walks(tool).then(|| (tool.to_owned(), params.clone()));
        Ok(Self {
            tool: AnyTool::read(tool, params)?,
            walk,
        })
    }

    pub fn tier(&self) -> ToolTier {
        self.tool.tier()
    }

    /// Executes the call. A failing tool returns an answer that describes the failure. An error
    /// means that there is no answer: the session was not available, the call was cancelled, or an
    /// internal error occurred.
    pub async fn run(self, context: &ToolContext) -> Result<ToolResponse> {
        let (tier, started) = (self.tier(), Instant::now());
        if let (Some(walks), Some((tool, params))) = (&context.walks, &self.walk) {
            return match walks.run(tool, params, context).await {
                Err(error) => response(Err(error), tier, started),
                answer => answer,
            };
        }
        response(self.tool.run(context).await, tier, started)
    }

    /// Executes a tool that walks trees on this thread, in a worker process. `tell` gets its
    /// progress.
    pub fn run_walk(
        self,
        tree: SessionTree,
        time_limit: Duration,
        tell: Box<dyn Fn(ToolProgress) + Send>,
    ) -> Result<ToolResponse> {
        let (tier, started) = (self.tier(), Instant::now());
        let side = HostSide::in_worker(tree, time_limit, tell);
        response(self.tool.run_walk(&side), tier, started)
    }
}

/// Makes the response of a tool. Fails with errors that an agent cannot act on.
fn response(outcome: Result<Outcome>, tier: ToolTier, started: Instant) -> Result<ToolResponse> {
    let outcome = match outcome {
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
