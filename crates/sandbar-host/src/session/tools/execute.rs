//! Executing tools.

use std::sync::Arc;

use sandbar_core::{Result, SessionId, ToolInfo, ToolRequest, ToolResponse};
use sandbar_tools::{PreparedCall, calls::Found};

use super::{ToolExecution, trace::Trace, work::Work};
use crate::Host;

impl Host {
    /// Lists the tools.
    pub fn list_tools(&self) -> &'static [ToolInfo] {
        sandbar_tools::list_tools()
    }

    /// Executes a tool and waits for its response. A repeated call joins the one in progress, or
    /// gets the stored response.
    pub async fn execute_tool(&self, id: &SessionId, request: ToolRequest) -> Result<ToolResponse> {
        self.begin_tool(id, request, false).await?.answer().await
    }

    /// As [`execute_tool`](Self::execute_tool), with progress while the tool runs. Dropping the
    /// last handle of a call cancels it.
    pub async fn execute_tool_stream(
        &self,
        id: &SessionId,
        request: ToolRequest,
    ) -> Result<ToolExecution> {
        self.begin_tool(id, request, true).await
    }

    async fn begin_tool(
        &self,
        id: &SessionId,
        request: ToolRequest,
        listen: bool,
    ) -> Result<ToolExecution> {
        let engine = self.engine();
        let trace = Trace::begin(engine, id, &request);
        match self.begin_traced(id, request, &trace, listen).await {
            Err(error) => {
                trace.failed(&error).await;
                Err(error)
            }
            begun => begun,
        }
    }

    async fn begin_traced(
        &self,
        id: &SessionId,
        request: ToolRequest,
        trace: &Trace,
        listen: bool,
    ) -> Result<ToolExecution> {
        let ToolRequest {
            tool,
            call,
            params,
            resources,
        } = request;
        let prepared = PreparedCall::new(&tool, params)?;
        let engine = self.engine();
        resources.validate()?;
        engine.runtime.admit(&resources, None)?;
        let session = engine.session(id)?;
        let mut prepared = Some(prepared);
        loop {
            match session.calls.find_or_add(&call, listen) {
                Found::Joined(execution) => return Ok(execution),
                // Its last caller has just dropped it. Its outcome decides whether the tool has to
                // run again.
                Found::Ending(call) => call.ended().await,
                Found::Added(execution, entry) => {
                    if let Some(prepared) = prepared.take() {
                        let (engine, trace) = (Arc::clone(engine), trace.clone());
                        Work {
                            engine,
                            session: Arc::clone(&session),
                            tool,
                            prepared,
                            resources,
                            trace,
                        }
                        .start(entry);
                    }
                    return Ok(execution);
                }
            }
        }
    }
}
