//! Helpers for cases that call tools.

use sandbar_core::{
    ErrorCode, Resources, Result, SessionId, ToolCallId, ToolEvent, ToolProgress, ToolRequest,
    ToolResponse,
};
use serde_json::Value;

use crate::fixture::HostFixture;

/// A call with a name of its own.
pub(crate) fn request(tool: &str, params: Value) -> ToolRequest {
    named(SessionId::random().as_str(), tool, params)
}

/// A call of this name.
pub(crate) fn named(call: &str, tool: &str, params: Value) -> ToolRequest {
    let Value::Object(params) = params else {
        panic!("parameters are an object")
    };
    ToolRequest {
        tool: tool.to_owned(),
        call: ToolCallId::new(call).unwrap(),
        params,
        resources: Resources::default(),
    }
}

impl HostFixture {
    /// Calls a tool and takes its answer, good or bad.
    pub(crate) async fn tool(&self, id: &SessionId, tool: &str, params: Value) -> ToolResponse {
        self.host
            .execute_tool(id, request(tool, params))
            .await
            .unwrap()
    }

    /// Calls a tool that has to succeed, and takes its text.
    pub(crate) async fn done(&self, id: &SessionId, tool: &str, params: Value) -> String {
        let answer = self.tool(id, tool, params.clone()).await;
        assert!(!answer.is_error, "{tool} {params}: {}", answer.content);
        answer.content
    }

    /// Calls a tool and takes everything it says.
    pub(crate) async fn stream(
        &self,
        id: &SessionId,
        request: ToolRequest,
    ) -> (Vec<ToolProgress>, Result<ToolResponse>) {
        let mut execution = match self.host.execute_tool_stream(id, request).await {
            Ok(execution) => execution,
            Err(error) => return (Vec::new(), Err(error)),
        };
        let mut told = Vec::new();
        while let Some(event) = execution.next_event().await {
            match event {
                Ok(ToolEvent::Progress(progress)) => told.push(progress),
                Ok(ToolEvent::Finished(answer)) => {
                    assert!(
                        execution.next_event().await.is_none(),
                        "something came after the answer"
                    );
                    return (told, Ok(answer));
                }
                Err(error) => return (told, Err(error)),
            }
        }
        panic!("the call had no end");
    }

    pub(crate) async fn refused(
        &self,
        id: &SessionId,
        request: ToolRequest,
    ) -> (ErrorCode, Option<String>) {
        let error = self.host.execute_tool(id, request).await.unwrap_err();
        (error.code(), error.field().map(str::to_owned))
    }
}
