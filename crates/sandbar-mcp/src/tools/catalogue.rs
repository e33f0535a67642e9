//! Every tool there is: listed, and found by its name.

use std::sync::Arc;

use sandbar_client::Client;
use sandbar_core::{Result, ToolInfo};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::{answer::Answer, call::Call, definition::Definition, host_tool, own::OwnTool};
use crate::{jsonrpc::Fault, sandboxes::DefaultSandbox, version::Version};

/// All tools. Clones share what they know of the host's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    of_host: Arc<OnceCell<Vec<ToolInfo>>>,
}

impl Catalogue {
    /// As clients see them, always in the same order.
    pub(crate) async fn list(&self, client: &Client, version: Version, default: &DefaultSandbox) -> Result<Vec<Value>> {
        let of_host = self.of_host(client).await?.iter().map(host_tool::define);
        let all = of_host.chain(OwnTool::ALL.map(OwnTool::define));
        Ok(all.map(|tool: Definition| tool.to_json(version, default)).collect())
    }

    /// Calls a tool. One that fails answers; only a tool that is not there is a fault.
    pub(crate) async fn call(&self, tool: &str, call: Call<'_>) -> Result<Answer, Fault> {
        let own = OwnTool::ALL.into_iter().find(|own| own.define().name == tool);
        let outcome = match own {
            // Boxed: what a call keeps would otherwise be part of everything that waits for one.
            Some(own) => Box::pin(own.run(call)).await,
            None => match self.of_host(call.client).await {
                Ok(tools) if tools.iter().any(|known| known.name == tool) => Box::pin(host_tool::run(tool, call)).await,
                Ok(_) => {
                    return Err(Fault::invalid_params(format!("there is no tool `{}`", tool.escape_debug())));
                }
                Err(error) => Err(error),
            },
        };
        Ok(outcome.unwrap_or_else(|error| Answer::from(&error)))
    }

    /// The host's tools do not change while it runs.
    async fn of_host(&self, client: &Client) -> Result<&Vec<ToolInfo>> {
        self.of_host.get_or_try_init(|| client.list_tools()).await
    }
}
