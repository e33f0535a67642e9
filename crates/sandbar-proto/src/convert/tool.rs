//! Tool messages.

use sandbar_core::{
    ContentBlock, Error, Result, SessionId, SnapshotName, ToolCallId, ToolEvent, ToolInfo,
    ToolProgress, ToolRequest, ToolResponse, ToolTier,
};
use serde_json::Value;

use super::{
    json::{pack_object, unpack_object},
    scalar::{missing, pack_duration, unpack_duration},
    session::optional_snapshot,
};
use crate::v1::{self, content_block::Block, execute_tool_stream_response::Event};

impl v1::ExecuteToolRequest {
    pub fn new(session: &SessionId, request: &ToolRequest) -> Self {
        Self {
            session_id: session.as_str().to_owned(),
            tool_name: request.tool.clone(),
            tool_call_id: request.call.as_str().to_owned(),
            params: pack_object(&request.params).into(),
            resources: v1::Resources::from(&request.resources).into(),
            ..Default::default()
        }
    }

    /// Returns the session and the tool call.
    pub fn unpack(self) -> Result<(SessionId, ToolRequest)> {
        let session = SessionId::new(self.session_id)?;
        if self.tool_name.is_empty() {
            return Err(missing("tool_name"));
        }
        let request = ToolRequest {
            tool: self.tool_name,
            call: ToolCallId::new(self.tool_call_id)?,
            params: unpack_object("params", self.params)?,
            resources: self
                .resources
                .into_option()
                .unwrap_or_default()
                .try_into()?,
        };
        Ok((session, request))
    }
}

impl From<&ToolInfo> for v1::Tool {
    fn from(tool: &ToolInfo) -> Self {
        Self {
            name: tool.name.clone(),
            description: tool.description.clone(),
            tier: tool.tier.number(),
            input_schema: tool
                .schema
                .as_object()
                .map(pack_object)
                .unwrap_or_default()
                .into(),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::Tool> for ToolInfo {
    type Error = Error;

    fn try_from(wire: v1::Tool) -> Result<Self> {
        Ok(Self {
            name: wire.name,
            description: wire.description,
            tier: tier(wire.tier)?,
            schema: Value::Object(unpack_object("input_schema", wire.input_schema)?),
        })
    }
}

impl From<ToolResponse> for v1::ToolResult {
    fn from(response: ToolResponse) -> Self {
        Self {
            content: response.content,
            content_blocks: response
                .content_blocks
                .into_iter()
                .map(v1::ContentBlock::from)
                .collect(),
            exit_code: response.exit_code,
            snapshot_id: response.snapshot_id.map(String::from).unwrap_or_default(),
            duration: pack_duration(response.duration),
            tier: response.tier.number(),
            is_error: response.is_error,
            timed_out: response.timed_out,
            oom_killed: response.oom_killed,
            truncated: response.truncated,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::ToolResult> for ToolResponse {
    type Error = Error;

    fn try_from(wire: v1::ToolResult) -> Result<Self> {
        let snapshot_id: Option<SnapshotName> = optional_snapshot("snapshot_id", wire.snapshot_id)?;
        Ok(Self {
            content: wire.content,
            // Unknown blocks of a newer server are skipped; the text has the essential content.
            content_blocks: wire
                .content_blocks
                .into_iter()
                .filter_map(|block| block.block.map(unpack_block))
                .collect(),
            exit_code: wire.exit_code,
            snapshot_id,
            duration: unpack_duration("duration", wire.duration)?.unwrap_or_default(),
            tier: tier(wire.tier)?,
            is_error: wire.is_error,
            timed_out: wire.timed_out,
            oom_killed: wire.oom_killed,
            truncated: wire.truncated,
        })
    }
}

impl From<ContentBlock> for v1::ContentBlock {
    fn from(block: ContentBlock) -> Self {
        let block = match block {
            ContentBlock::Text(text) => Block::Text(text),
            ContentBlock::Image { media_type, data } => v1::ImageBlock {
                media_type,
                data,
                ..Default::default()
            }
            .into(),
        };
        Self {
            block: Some(block),
            ..Default::default()
        }
    }
}

fn unpack_block(block: Block) -> ContentBlock {
    match block {
        Block::Text(text) => ContentBlock::Text(text),
        Block::Image(image) => ContentBlock::Image {
            media_type: image.media_type,
            data: image.data,
        },
    }
}

impl From<ToolEvent> for v1::ExecuteToolStreamResponse {
    fn from(event: ToolEvent) -> Self {
        let event = match event {
            ToolEvent::Progress(ToolProgress { content, is_error }) => v1::ToolProgress {
                content,
                is_error,
                ..Default::default()
            }
            .into(),
            ToolEvent::Finished(response) => v1::ToolResult::from(response).into(),
        };
        Self {
            event: Some(event),
            ..Default::default()
        }
    }
}

impl v1::ExecuteToolStreamResponse {
    /// Returns the event; `None` for an unknown event of a newer server.
    pub fn unpack(self) -> Result<Option<ToolEvent>> {
        Ok(match self.event {
            None => None,
            Some(Event::Progress(progress)) => {
                let progress = *progress;
                Some(ToolEvent::Progress(ToolProgress {
                    content: progress.content,
                    is_error: progress.is_error,
                }))
            }
            Some(Event::Result(result)) => Some(ToolEvent::Finished((*result).try_into()?)),
        })
    }
}

fn tier(number: u32) -> Result<ToolTier> {
    ToolTier::from_number(number)
        .ok_or_else(|| Error::invalid("tier", format!("tier {number} does not exist")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbar_core::Resources;
    use serde_json::json;

    use super::*;

    #[test]
    fn tool_call_and_result_survive_the_wire() {
        let session = SessionId::new("box").unwrap();
        let Value::Object(params) = json!({"path": "a", "limit": 3, "env": {"A": "b"}}) else {
            panic!("not an object")
        };
        let request = ToolRequest {
            tool: "read_file".into(),
            call: ToolCallId::new("call 1").unwrap(),
            params,
            resources: Resources {
                pids: Some(3),
                ..Resources::default()
            },
        };
        assert_eq!(
            v1::ExecuteToolRequest::new(&session, &request)
                .unpack()
                .unwrap(),
            (session, request)
        );
        let answer = ToolResponse {
            content: "text".into(),
            content_blocks: vec![
                ContentBlock::Text("t".into()),
                ContentBlock::Image {
                    media_type: "image/png".into(),
                    data: vec![0, 1, 255].into(),
                },
            ],
            exit_code: Some(-1),
            snapshot_id: Some(SnapshotName::new("tool-1").unwrap()),
            duration: Duration::from_nanos(1_000_000_001),
            tier: ToolTier::Sandbox,
            is_error: true,
            timed_out: true,
            oom_killed: true,
            truncated: true,
        };
        let progress = ToolProgress {
            content: "half".into(),
            is_error: true,
        };
        for event in [ToolEvent::Progress(progress), ToolEvent::Finished(answer)] {
            assert_eq!(
                v1::ExecuteToolStreamResponse::from(event.clone())
                    .unpack()
                    .unwrap(),
                Some(event)
            );
        }
    }

    #[test]
    fn tool_survives_the_wire() {
        let tool = ToolInfo {
            name: "bash".into(),
            description: "runs".into(),
            tier: ToolTier::Host,
            schema: json!({"type": "object", "properties": {"n": {"minimum": 1}}, "required": []}),
        };
        assert_eq!(ToolInfo::try_from(v1::Tool::from(&tool)).unwrap(), tool);
    }

    #[test]
    fn tool_call_without_ids_is_rejected() {
        let call = |tool: &str, id: &str| v1::ExecuteToolRequest {
            session_id: "box".into(),
            tool_name: tool.into(),
            tool_call_id: id.into(),
            ..Default::default()
        };
        assert_eq!(
            call("bash", "").unpack().unwrap_err().field(),
            Some("tool_call_id")
        );
        assert_eq!(
            call("", "1").unpack().unwrap_err().field(),
            Some("tool_name")
        );
    }
}
