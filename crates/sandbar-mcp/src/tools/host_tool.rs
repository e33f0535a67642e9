//! Tools of the host, run in a sandbox.

use sandbar_core::{Error, Resources, Result, ToolEvent, ToolInfo, ToolRequest};

use super::{
    answer::Answer,
    call::Call,
    definition::{Definition, WorksIn},
    hints::Hints,
    output,
};

pub(crate) fn define(tool: &ToolInfo) -> Definition {
    Definition {
        name: tool.name.clone(),
        description: tool.description.clone(),
        hints: Hints::of_host_tool(&tool.name),
        input: tool.schema.clone(),
        // The result is text for a model. Clients that get structured content as well tend to show
        // the model only that.
        output: None,
        works_in: WorksIn::Sandbox,
    }
}

/// Runs a tool. Dropping the future cancels it, unless another caller waits for the same call.
pub(crate) async fn run(tool: &str, mut call: Call<'_>) -> Result<Answer> {
    let sandbox = call.sandbox().await?;
    let request = ToolRequest {
        tool: tool.to_owned(),
        call: call.id.clone(),
        params: std::mem::take(&mut call.arguments),
        resources: Resources::default(),
    };
    let response = match call.progress.take() {
        None => call.client.execute_tool(&sandbox, &request).await?,
        Some(mut progress) => {
            let mut running = call.client.execute_tool_stream(&sandbox, &request).await?;
            loop {
                match running.next_event().await? {
                    Some(ToolEvent::Progress(update)) => progress.send(&update.content).await,
                    Some(ToolEvent::Finished(response)) => break response,
                    None => return Err(Error::internal("tool ended without a result")),
                }
            }
        }
    };
    Ok(
        output::truncate(&call, &sandbox, tool, &request.call, response)
            .await
            .into(),
    )
}
