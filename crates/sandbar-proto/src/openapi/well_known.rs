//! Google's messages that are something else in JSON.

use serde_json::{Value, json};

/// What stands in JSON in place of such a message; `None` when it is an ordinary one.
pub(super) fn schema(message: &str) -> Option<Value> {
    Some(match message {
        "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
        "google.protobuf.Duration" => json!({
            "type": "string",
            "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$",
            "examples": ["90s", "0.25s"],
        }),
        "google.protobuf.Struct" => json!({"type": "object"}),
        "google.protobuf.Value" => json!({}),
        "google.protobuf.ListValue" => json!({"type": "array"}),
        "google.protobuf.Empty" => json!({"type": "object", "maxProperties": 0}),
        _ => return None,
    })
}
