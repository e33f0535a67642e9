//! List and lookup of all tools.

use std::sync::Arc;

use rmcp::model::{ErrorData, ProtocolVersion, Tool};
use sandbar_client::Client;
use sandbar_core::{Error, ErrorCode, Result, SessionId, ToolInfo};
use tokio::sync::OnceCell;

use super::{answer::Answer, call::Call, definition::Definition, host_tool, own::OwnTool};
use crate::sandboxes::DefaultSandbox;

/// All tools. Clones share the cached tools of the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    of_host: Arc<OnceCell<Vec<ToolInfo>>>,
}

impl Catalogue {
    /// Returns the tools as clients see them, in a stable order.
    pub(crate) async fn list(
        &self,
        client: &Client,
        version: &ProtocolVersion,
        default: &DefaultSandbox,
    ) -> Result<Vec<Tool>> {
        let of_host = self.of_host(client).await?.iter().map(host_tool::define);
        let own = OwnTool::ALL
            .into_iter()
            .filter(|own| default.only_one().is_none() || !own.creates_sandboxes());
        let all = of_host.chain(own.map(OwnTool::define));
        Ok(all
            .map(|tool: Definition| tool.to_tool(version, default))
            .collect())
    }

    /// Calls a tool. A failure of the tool is a result; only an unknown tool is a protocol error.
    pub(crate) async fn call(&self, tool: &str, call: Call<'_>) -> Result<Answer, ErrorData> {
        let own = OwnTool::ALL
            .into_iter()
            .find(|own| own.define().name == tool);
        let outcome = match own {
            Some(own) if own.creates_sandboxes() && call.default.only_one().is_some() => {
                Err(confined(tool, call.default))
            }
            // Boxed, to keep the large future of a call out of the futures that await it.
            Some(own) => Box::pin(own.run(call)).await,
            None => match self.of_host(call.client).await {
                Ok(tools) if tools.iter().any(|known| known.name == tool) => {
                    Box::pin(host_tool::run(tool, call)).await
                }
                Ok(_) => {
                    return Err(ErrorData::invalid_params(
                        format!("tool `{}` not found", tool.escape_debug()),
                        None,
                    ));
                }
                Err(error) => Err(error),
            },
        };
        Ok(outcome.unwrap_or_else(|error| Answer::from(&error)))
    }

    /// Returns the tools of the host, which do not change while it runs.
    async fn of_host(&self, client: &Client) -> Result<&Vec<ToolInfo>> {
        self.of_host.get_or_try_init(|| client.list_tools()).await
    }
}

/// Returns the error for a tool that would create sandboxes on a confined connection.
fn confined(tool: &str, default: &DefaultSandbox) -> Error {
    let only = default.only_one().map_or("one", SessionId::as_str);
    Error::new(
        ErrorCode::PermissionDenied,
        format!("tool `{tool}` is not available: this connection is confined to sandbox `{only}`"),
    )
    .with_hint("use snapshot and rollback to try something and undo it")
}
