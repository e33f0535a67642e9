//! The tools of the host, in a sandbox.

use sandbar_core::{Error, Resources, Result, ToolEvent, ToolInfo, ToolRequest};

use super::{
    answer::Answer,
    call::Call,
    definition::{Definition, WorksIn},
    hints::Hints,
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
    let request =
        ToolRequest { tool: tool.to_owned(), call: call.id, params: call.arguments, resources: Resources::default() };
    let Some(mut progress) = call.progress else {
        return call.client.execute_tool(&sandbox, &request).await.map(Answer::from);
    };
    let mut running = call.client.execute_tool_stream(&sandbox, &request).await?;
    loop {
        match running.next_event().await? {
            Some(ToolEvent::Progress(said)) => progress.tell(&said.content).await,
            Some(ToolEvent::Finished(response)) => return Ok(response.into()),
            None => return Err(Error::internal("the tool ended without an answer")),
        }
    }
}
