//! Tool calls.

use std::sync::Arc;

use sandbar_core::{Error, Resources, Result, ToolEvent, ToolRequest, ToolResponse};
use sandbar_tools::{
    PreparedCall, ToolContext,
    calls::{Entry, Found, ToolExecution, progress_channel},
};

use super::{runner::LocalRunner, session::LocalSession};
use crate::OnProgress;

impl LocalSession {
    /// Calls a tool. A repeated call joins the running one, or gets its result.
    pub(super) async fn execute_tool(
        self: &Arc<Self>,
        request: ToolRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<ToolResponse> {
        self.present()?;
        let mut execution = self.begin(request).await?;
        while let Some(event) = execution.next_event().await {
            match event? {
                ToolEvent::Progress(progress) => on_progress(progress),
                ToolEvent::Finished(response) => return Ok(response),
            }
        }
        Err(Error::internal("tool call ended without a result"))
    }

    async fn begin(self: &Arc<Self>, request: ToolRequest) -> Result<ToolExecution> {
        let ToolRequest {
            tool,
            call,
            params,
            resources,
        } = request;
        if !self.root.is_private()
            && params
                .get("shell")
                .is_some_and(|shell| shell == "persistent")
        {
            return Err(Error::invalid(
                "shell",
                "persistent shell is not supported without a private root",
            )
            .with_hint("use a fresh shell, or run as root"));
        }
        let prepared = PreparedCall::new(&tool, params)?;
        resources.validate()?;
        self.runtime.admit(&resources, None)?;
        loop {
            match self.calls.find_or_add(&call, true) {
                Found::Joined(execution) => return Ok(execution),
                // Its last caller has just gone. Its outcome decides whether it runs again.
                Found::Ending(call) => call.ended().await,
                Found::Added(execution, entry) => {
                    let session = Arc::clone(self);
                    entry.spawn(|entry| async move {
                        let result = session.work(&entry, prepared, resources).await;
                        entry.end(result);
                    });
                    return Ok(execution);
                }
            }
        }
    }

    async fn work(
        self: &Arc<Self>,
        entry: &Entry,
        prepared: PreparedCall,
        resources: Resources,
    ) -> Result<ToolResponse> {
        if let Some(stored) = self.results.get(entry.id()) {
            return Ok(stored);
        }
        let _inside = self.enter().await?;
        let (progress, events) = progress_channel();
        let context = ToolContext {
            tree: self.tree.clone(),
            runner: Arc::new(LocalRunner(Arc::clone(self))),
            walks: None,
            resources: resources.or(&self.resources),
            time_limit: self.tool_timeout,
            progress,
            cancelled: entry.cancelled().clone(),
            shell: Arc::clone(&self.calls.shell),
        };
        let response = entry.run(prepared, &context, events).await?;
        self.results.put(entry.id(), &response);
        Ok(response)
    }
}
