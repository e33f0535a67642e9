//! The tools of the host, in a sandbox.

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
        // Its answer is text for a model: clients that get both forms tend to show the model the other one.
        output: None,
        works_in: WorksIn::Sandbox,
    }
}

/// Dropping this ends the tool, unless somebody else waits for the same call.
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
                    Some(ToolEvent::Progress(said)) => progress.tell(&said.content).await,
                    Some(ToolEvent::Finished(response)) => break response,
                    None => return Err(Error::internal("the tool ended without an answer")),
                }
            }
        }
    };
    Ok(output::bound(&call, &sandbox, tool, &request.call, response).await.into())
}
