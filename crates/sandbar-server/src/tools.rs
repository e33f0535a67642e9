//! Tools.

use connectrpc::{Response, ServiceResult, ServiceStream};
use futures::stream;
use sandbar_proto::v1;

use crate::{
    failure::{failed, failed_in},
    service::Service,
};

impl Service {
    pub(crate) fn all_tools(&self) -> ServiceResult<v1::ListToolsResponse> {
        let tools = self.host.list_tools().iter().map(v1::Tool::from).collect();
        Response::ok(v1::ListToolsResponse { tools, ..Default::default() })
    }

    pub(crate) async fn call_tool(&self, request: v1::ExecuteToolRequest) -> ServiceResult<v1::ExecuteToolResponse> {
        let (id, request) = request.unpack().map_err(failed)?;
        let answer = self.host.execute_tool(&id, request).await.map_err(failed_in(&id))?;
        Response::ok(v1::ExecuteToolResponse { result: v1::ToolResult::from(answer).into(), ..Default::default() })
    }

    /// The call belongs to the answer: when the caller goes away, the answer is dropped and the call with it.
    pub(crate) async fn follow_tool(
        &self,
        request: v1::ExecuteToolRequest,
    ) -> ServiceResult<ServiceStream<v1::ExecuteToolStreamResponse>> {
        let (id, request) = request.unpack().map_err(failed)?;
        let execution = self.host.execute_tool_stream(&id, request).await.map_err(failed_in(&id))?;
        let events = stream::unfold(execution, move |mut execution| {
            let fail = failed_in(&id);
            async move {
                let event = execution.next_event().await?;
                Some((event.map(v1::ExecuteToolStreamResponse::from).map_err(fail), execution))
            }
        });
        Ok(Response::new(Box::pin(events)))
    }
}
