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
    /// Calls a tool. One that is repeated joins the call under way, or gets its answer.
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
        Err(Error::internal("the tool call ended without an answer"))
    }

    async fn begin(self: &Arc<Self>, request: ToolRequest) -> Result<ToolExecution> {
        let ToolRequest { tool, call, params, resources } = request;
        if !self.workplace.is_own() && params.get("shell").is_some_and(|shell| shell == "persistent") {
            return Err(Error::invalid("shell", "there is no place here to keep the state of a persistent shell")
                .with_hint("use a fresh one, or run as root"));
        }
        let prepared = PreparedCall::new(&tool, params)?;
        resources.validate()?;
        self.runtime.admit(&resources, None)?;
        loop {
            match self.calls.find_or_add(&call, true) {
                Found::Joined(execution) => return Ok(execution),
                // Nobody waited for it a moment ago. What became of it decides whether it has to be done again.
                Found::Ending(call) => call.ended().await,
                Found::Added(execution, entry) => {
                    let session = Arc::clone(self);
                    entry.spawn(|entry| async move {
                        let answer = session.work(&entry, prepared, resources).await;
                        entry.end(answer);
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
        if let Some(stored) = self.answers.get(entry.id()) {
            return Ok(stored);
        }
        let _inside = self.enter().await?;
        let (progress, told) = progress_channel();
        let context = ToolContext {
            tree: self.tree.clone(),
            runner: Arc::new(LocalRunner(Arc::clone(self))),
            resources: resources.or(&self.resources),
            time_limit: self.tool_timeout,
            progress,
            cancelled: entry.cancelled().clone(),
            shell: Arc::clone(&self.calls.shell),
        };
        let response = entry.run(prepared, &context, told).await?;
        self.answers.keep(entry.id(), &response);
        Ok(response)
    }
}
