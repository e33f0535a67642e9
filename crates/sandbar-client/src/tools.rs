//! Tool calls.

use std::fmt;

use connectrpc::client::ServerStream;
use sandbar_core::{Result, SessionId, ToolEvent, ToolInfo, ToolRequest, ToolResponse};
use sandbar_proto::v1;

use crate::{
    Client,
    client::{incomplete, required},
    transport::ResponseBody,
};

type Events = ServerStream<ResponseBody, v1::ExecuteToolStreamResponseView<'static>>;

impl Client {
    /// Lists the tools of the host.
    pub async fn list_tools(&self) -> Result<Vec<ToolInfo>> {
        let answer = self
            .repeat(|| self.rpc.list_tools(v1::ListToolsRequest::default()))
            .await?
            .into_owned();
        answer.tools.into_iter().map(ToolInfo::try_from).collect()
    }

    /// Calls a tool and waits for its result. Retried when the host could not be reached: the call
    /// id makes it idempotent.
    pub async fn execute_tool(
        &self,
        id: &SessionId,
        request: &ToolRequest,
    ) -> Result<ToolResponse> {
        let request = v1::ExecuteToolRequest::new(id, request);
        let answer = self
            .repeat(|| self.rpc.execute_tool(request.clone()))
            .await?
            .into_owned();
        required("result", answer.result.into_option())
    }

    /// Calls a tool and streams its output. The result is the same as that of
    /// [`execute_tool`](Self::execute_tool).
    pub async fn execute_tool_stream(
        &self,
        id: &SessionId,
        request: &ToolRequest,
    ) -> Result<RemoteTool> {
        let request = v1::ExecuteToolRequest::new(id, request);
        let events = self.once(self.rpc.execute_tool_stream(request)).await?;
        Ok(RemoteTool {
            client: self.clone(),
            events,
            finished: false,
        })
    }
}

/// Running tool call. Dropping it cancels the call, unless another caller waits for the same call.
pub struct RemoteTool {
    client: Client,
    events: Events,
    finished: bool,
}

impl RemoteTool {
    /// Returns the next event; `None` after the result.
    pub async fn next_event(&mut self) -> Result<Option<ToolEvent>> {
        if self.finished {
            return Ok(None);
        }
        loop {
            let Some(message) = self.client.once(self.events.message()).await? else {
                return Err(incomplete("result"));
            };
            if let Some(event) = message.to_owned_message().unpack()? {
                self.finished = matches!(event, ToolEvent::Finished(_));
                return Ok(Some(event));
            }
        }
    }
}

impl fmt::Debug for RemoteTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTool")
            .field("finished", &self.finished)
            .finish_non_exhaustive()
    }
}
