//! Every tool there is: listed, and found by its name.

use std::sync::Arc;

use rmcp::model::{ErrorData, ProtocolVersion, Tool};
use sandbar_client::Client;
use sandbar_core::{Error, ErrorCode, Result, SessionId, ToolInfo};
use tokio::sync::OnceCell;

use super::{answer::Answer, call::Call, definition::Definition, host_tool, own::OwnTool};
use crate::sandboxes::DefaultSandbox;

/// All tools. Clones share what they know of the host's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    of_host: Arc<OnceCell<Vec<ToolInfo>>>,
}

impl Catalogue {
    /// As clients see them, always in the same order.
    pub(crate) async fn list(
        &self,
        client: &Client,
        version: &ProtocolVersion,
        default: &DefaultSandbox,
    ) -> Result<Vec<Tool>> {
        let of_host = self.of_host(client).await?.iter().map(host_tool::define);
        let own = OwnTool::ALL.into_iter().filter(|own| default.only_one().is_none() || !own.makes_sandboxes());
        let all = of_host.chain(own.map(OwnTool::define));
        Ok(all.map(|tool: Definition| tool.to_tool(version, default)).collect())
    }

    /// Calls a tool. One that fails answers; only a tool that is not there is a fault.
    pub(crate) async fn call(&self, tool: &str, call: Call<'_>) -> Result<Answer, ErrorData> {
        let own = OwnTool::ALL.into_iter().find(|own| own.define().name == tool);
        let outcome = match own {
            Some(own) if own.makes_sandboxes() && call.default.only_one().is_some() => {
                Err(confined(tool, call.default))
            }
            // Boxed: what a call keeps would otherwise be part of everything that waits for one.
            Some(own) => Box::pin(own.run(call)).await,
            None => match self.of_host(call.client).await {
                Ok(tools) if tools.iter().any(|known| known.name == tool) => Box::pin(host_tool::run(tool, call)).await,
                Ok(_) => {
                    return Err(ErrorData::invalid_params(format!("there is no tool `{}`", tool.escape_debug()), None));
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

/// The refusal of a tool that reaches beyond the one sandbox of a connection.
fn confined(tool: &str, default: &DefaultSandbox) -> Error {
    let only = default.only_one().map_or("one", SessionId::as_str);
    Error::new(ErrorCode::PermissionDenied, format!("`{tool}` is not offered: this connection is confined to `{only}`"))
        .with_hint("use snapshot and rollback to try something and undo it")
}
