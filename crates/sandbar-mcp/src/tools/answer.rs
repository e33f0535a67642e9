//! Results of tool calls in the form of MCP.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, ProtocolVersion};
use sandbar_core::{Error, ToolResponse};
use serde_json::Value;

use super::advice;
use crate::version::has_structured_content;

/// Result of a tool call.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    content: Vec<ContentBlock>,
    /// Structured content, as declared by the output schema of the tool.
    structured: Option<Value>,
    is_error: bool,
    meta: JsonObject,
}

impl Answer {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentBlock::text(text)],
            ..Self::default()
        }
    }

    /// Returns a value as text and as structured content, as clients show a model either.
    pub(crate) fn structured(value: Value) -> Self {
        Self {
            content: vec![ContentBlock::text(value.to_string())],
            structured: Some(value),
            ..Self::default()
        }
    }

    pub(crate) fn into_result(self, version: &ProtocolVersion) -> CallToolResult {
        let mut result = CallToolResult::success(self.content);
        result.is_error = Some(self.is_error);
        result.structured_content = self.structured.filter(|_| has_structured_content(version));
        result.meta = Some(MetaObject(self.meta)).filter(|meta| !meta.is_empty());
        result
    }
}

/// The text has error and hint, because a model reads it and can act on it.
impl From<&Error> for Answer {
    fn from(error: &Error) -> Self {
        let mut text = format!("error: {}", error.chain());
        if let Some(hint) = advice::hint(error) {
            text.push_str("\nhint: ");
            text.push_str(hint);
        }
        let mut meta =
            JsonObject::from_iter([("sandbar/errorCode".into(), error.code().as_str().into())]);
        if let Some(field) = error.field() {
            meta.insert("sandbar/errorField".into(), field.into());
        }
        Self {
            content: vec![ContentBlock::text(text)],
            is_error: true,
            meta,
            ..Self::default()
        }
    }
}

impl From<ToolResponse> for Answer {
    fn from(response: ToolResponse) -> Self {
        let failed_with = response.exit_code.filter(|code| *code != 0);
        let mut content: Vec<ContentBlock> = response.content_blocks.iter().map(block).collect();
        if !response.content.is_empty() || content.is_empty() {
            // Models take an empty result for a failure.
            let silent = response.content.is_empty() && response.exit_code == Some(0);
            let text = if silent {
                "[no output]"
            } else {
                response.content.as_str()
            };
            content.insert(0, ContentBlock::text(text));
        }
        // Models see only the text. Skipped when the output already ends with `[exit code …]`.
        if let Some(code) = failed_with.filter(|_| !response.content.trim_end().ends_with(']')) {
            content.push(ContentBlock::text(format!("[exit code {code}]")));
        }
        let mut meta = JsonObject::new();
        meta.insert("sandbar/tier".into(), response.tier.number().into());
        meta.insert(
            "sandbar/durationSeconds".into(),
            response.duration.as_secs_f64().into(),
        );
        meta.extend(
            response
                .exit_code
                .map(|code| ("sandbar/exitCode".to_owned(), code.into())),
        );
        meta.extend(
            response
                .snapshot_id
                .map(|name| ("sandbar/snapshot".to_owned(), name.as_str().into())),
        );
        for (name, holds) in [
            ("sandbar/timedOut", response.timed_out),
            ("sandbar/oomKilled", response.oom_killed),
            ("sandbar/truncated", response.truncated),
        ] {
            if holds {
                meta.insert(name.into(), true.into());
            }
        }
        Self {
            content,
            structured: None,
            is_error: response.is_error,
            meta,
        }
    }
}

fn block(block: &sandbar_core::ContentBlock) -> ContentBlock {
    match block {
        sandbar_core::ContentBlock::Text(text) => ContentBlock::text(text.as_str()),
        sandbar_core::ContentBlock::Image { media_type, data } => {
            ContentBlock::image(STANDARD.encode(data), media_type.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbar_core::ToolTier;
    use serde_json::json;

    use super::*;

    fn shown(answer: Answer, version: &ProtocolVersion) -> Value {
        serde_json::to_value(answer.into_result(version)).unwrap()
    }

    fn response(content: &str, exit_code: Option<i32>) -> ToolResponse {
        ToolResponse {
            content: content.into(),
            content_blocks: Vec::new(),
            exit_code,
            snapshot_id: None,
            duration: Duration::from_millis(5),
            tier: ToolTier::Sandbox,
            is_error: exit_code != Some(0),
            timed_out: false,
            oom_killed: false,
            truncated: true,
        }
    }

    #[test]
    fn failed_command_reports_its_exit_code_once() {
        let shown = |content: &str, code| {
            shown(
                Answer::from(response(content, Some(code))),
                &ProtocolVersion::V_2025_06_18,
            )
        };
        let failed = shown("no such file\n", 2);
        assert_eq!(failed["content"][1]["text"], "[exit code 2]");
        assert_eq!(
            (&failed["isError"], &failed["_meta"]["sandbar/exitCode"]),
            (&json!(true), &json!(2))
        );
        assert_eq!(failed["_meta"]["sandbar/truncated"], true);
        assert_eq!(
            shown("[exit code 2, and no output]", 2)["content"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        assert_eq!(shown("fine", 0)["content"].as_array().unwrap().len(), 1);
        assert_eq!(shown("", 0)["content"][0]["text"], "[no output]");
    }

    #[test]
    fn image_content_is_base64_with_its_media_type() {
        let image = sandbar_core::ContentBlock::Image {
            media_type: "image/png".into(),
            data: vec![0xff, 0].into(),
        };
        let answer = Answer::from(ToolResponse {
            content_blocks: vec![image],
            ..response("", None)
        });
        assert_eq!(
            shown(answer, &ProtocolVersion::V_2024_11_05)["content"],
            json!([{"type": "image", "data": "/wA=", "mimeType": "image/png"}])
        );
    }

    #[test]
    fn error_result_has_message_and_hint() {
        let error = Error::invalid("path", "`x` is no path").with_hint("use another");
        let shown = shown(Answer::from(&error), &ProtocolVersion::V_2025_06_18);
        assert_eq!(
            shown["content"][0]["text"],
            "error: `x` is no path\nhint: use another"
        );
        assert_eq!(
            (&shown["isError"], &shown["_meta"]["sandbar/errorField"]),
            (&json!(true), &json!("path"))
        );
    }

    #[test]
    fn structured_content_depends_on_the_version() {
        let shown = |version| shown(Answer::structured(json!({"a": 1})), &version);
        assert_eq!(
            shown(ProtocolVersion::V_2025_06_18)["structuredContent"],
            json!({"a": 1})
        );
        assert!(
            shown(ProtocolVersion::V_2025_03_26)
                .get("structuredContent")
                .is_none()
        );
        assert_eq!(
            shown(ProtocolVersion::V_2025_03_26)["content"][0]["text"],
            r#"{"a":1}"#
        );
    }
}
