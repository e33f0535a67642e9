//! Presentation of tools and their results.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sandbar_core::{ContentBlock, SnapshotName, ToolInfo, ToolResponse};
use serde::Serialize;

/// JSON of the result of a tool call.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "as in the answer")]
pub(crate) struct ToolView<'a> {
    content: &'a str,
    content_blocks: Vec<BlockView<'a>>,
    exit_code: Option<i32>,
    snapshot_id: Option<&'a str>,
    duration_seconds: f64,
    tier: u32,
    is_error: bool,
    timed_out: bool,
    oom_killed: bool,
    truncated: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum BlockView<'a> {
    Text {
        text: &'a str,
    },
    /// The data is base64.
    Image {
        media_type: &'a str,
        data: String,
    },
}

impl<'a> From<&'a ToolResponse> for ToolView<'a> {
    fn from(answer: &'a ToolResponse) -> Self {
        let blocks = answer.content_blocks.iter().map(|block| match block {
            ContentBlock::Text(text) => BlockView::Text { text },
            ContentBlock::Image { media_type, data } => BlockView::Image {
                media_type,
                data: STANDARD.encode(data),
            },
        });
        Self {
            content: &answer.content,
            content_blocks: blocks.collect(),
            exit_code: answer.exit_code,
            snapshot_id: answer.snapshot_id.as_ref().map(SnapshotName::as_str),
            duration_seconds: answer.duration.as_secs_f64(),
            tier: answer.tier.number(),
            is_error: answer.is_error,
            timed_out: answer.timed_out,
            oom_killed: answer.oom_killed,
            truncated: answer.truncated,
        }
    }
}

/// JSON of a tool.
#[derive(Debug, Serialize)]
pub(crate) struct ToolInfoView<'a> {
    name: &'a str,
    description: &'a str,
    tier: u32,
    parameters: &'a serde_json::Value,
}

impl<'a> From<&'a ToolInfo> for ToolInfoView<'a> {
    fn from(tool: &'a ToolInfo) -> Self {
        Self {
            name: &tool.name,
            description: &tool.description,
            tier: tool.tier.number(),
            parameters: &tool.schema,
        }
    }
}
