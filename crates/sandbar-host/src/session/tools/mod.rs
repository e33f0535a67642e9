//! Tool calls: done once, however often they are asked for, and ended when nobody waits for them.

mod runner;
mod trace;
mod work;

pub use sandbar_tools::calls::ToolExecution;

use std::sync::Arc;

use sandbar_core::{Result, SessionId, ToolInfo, ToolRequest, ToolResponse};
use sandbar_tools::{PreparedCall, calls::Found};

use self::{trace::Trace, work::Work};
use crate::Host;

impl Host {
    /// Every tool there is.
    pub fn list_tools(&self) -> &'static [ToolInfo] {
        sandbar_tools::list_tools()
    }

    /// Calls a tool and waits for its answer. A call that is repeated joins the one under way, or gets its answer.
    pub async fn execute_tool(&self, id: &SessionId, request: ToolRequest) -> Result<ToolResponse> {
        self.begin_tool(id, request, false).await?.answer().await
    }

    /// Calls a tool and tells what it says while it works. The answer is the same as that of
    /// [`execute_tool`](Self::execute_tool). When the last caller drops a call, it is ended.
    pub async fn execute_tool_stream(&self, id: &SessionId, request: ToolRequest) -> Result<ToolExecution> {
        self.begin_tool(id, request, true).await
    }

    async fn begin_tool(&self, id: &SessionId, request: ToolRequest, listen: bool) -> Result<ToolExecution> {
        let inner = self.inner();
        let trace = Trace::begin(inner, id, &request);
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
        let ToolRequest { tool, call, params, resources } = request;
        let prepared = PreparedCall::new(&tool, params)?;
        let inner = self.inner();
        resources.validate()?;
        inner.runtime.admit(&resources, None)?;
        let session = inner.session(id)?;
        let mut prepared = Some(prepared);
        loop {
            match session.calls.find_or_add(&call, listen) {
                Found::Joined(execution) => return Ok(execution),
                // Nobody waited for it a moment ago. What became of it decides whether it has to be done again.
                Found::Ending(call) => call.ended().await,
                Found::Added(execution, entry) => {
                    if let Some(prepared) = prepared.take() {
                        let (inner, trace) = (Arc::clone(inner), trace.clone());
                        Work { inner, session: Arc::clone(&session), tool, prepared, resources, trace }.start(entry);
                    }
                    return Ok(execution);
                }
            }
        }
    }
}
