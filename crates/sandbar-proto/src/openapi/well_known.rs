//! Well-known types, which have a JSON form of their own.

use serde_json::{Value, json};

/// Returns the schema of a well-known type; `None` for other messages.
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
