//! Tool calls.

use connectrpc::{Response, ServiceResult, ServiceStream};
use futures::stream;
use sandbar_proto::v1;

use super::{
    errors::{failed, failed_in},
    service::Service,
};

pub(super) fn list_tools(service: &Service) -> ServiceResult<v1::ListToolsResponse> {
    let tools = service
        .host
        .list_tools()
        .iter()
        .map(v1::Tool::from)
        .collect();
    Response::ok(v1::ListToolsResponse {
        tools,
        ..Default::default()
    })
}

pub(super) async fn execute_tool(
    service: &Service,
    request: v1::ExecuteToolRequest,
) -> ServiceResult<v1::ExecuteToolResponse> {
    let (id, request) = request.unpack().map_err(failed)?;
    let answer = service
        .host
        .execute_tool(&id, request)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::ExecuteToolResponse {
        result: v1::ToolResult::from(answer).into(),
        ..Default::default()
    })
}

/// The stream owns the tool call: when the caller disconnects, the tool call is cancelled.
pub(super) async fn execute_tool_stream(
    service: &Service,
    request: v1::ExecuteToolRequest,
) -> ServiceResult<ServiceStream<v1::ExecuteToolStreamResponse>> {
    let (id, request) = request.unpack().map_err(failed)?;
    let execution = service
        .host
        .execute_tool_stream(&id, request)
        .await
        .map_err(failed_in(&id))?;
    let events = stream::unfold(execution, move |mut execution| {
        let fail = failed_in(&id);
        async move {
            let event = execution.next_event().await?;
            Some((
                event.map(v1::ExecuteToolStreamResponse::from).map_err(fail),
                execution,
            ))
        }
    });
    Ok(Response::new(Box::pin(events)))
}
