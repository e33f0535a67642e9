//! Error responses.

use serde_json::{Value, json};

use super::schema::reference;

/// Error detail message.
pub(super) const DETAIL: &str = "sandbar.v1.ErrorDetail";

/// Name of the error schema.
pub(super) const ERROR: &str = "connect.Error";

/// Connect error codes with their HTTP status.
const CODES: [(&str, u16); 16] = [
    ("canceled", 499),
    ("unknown", 500),
    ("invalid_argument", 400),
    ("deadline_exceeded", 504),
    ("not_found", 404),
    ("already_exists", 409),
    ("permission_denied", 403),
    ("resource_exhausted", 429),
    ("failed_precondition", 400),
    ("aborted", 409),
    ("out_of_range", 400),
    ("unimplemented", 501),
    ("internal", 500),
    ("unavailable", 503),
    ("data_loss", 500),
    ("unauthenticated", 401),
];

/// Returns the schema of the error object.
pub(super) fn schema() -> Value {
    let names: Vec<&str> = CODES.iter().map(|(name, _)| *name).collect();
    let statuses: Vec<String> = CODES
        .iter()
        .map(|(name, status)| format!("- `{name}`: {status}"))
        .collect();
    json!({
        "type": "object",
        "description": "Why a call failed. `code` is a coarse class; programs match on `code` of the detail.",
        "required": ["code"],
        "properties": {
            "code": {
                "type": "string",
                "enum": names,
                "description": format!("Error code, with the HTTP status of the response:\n\n{}", statuses.join("\n")),
            },
            "message": {"type": "string", "description": "What happened and why, for people."},
            "details": {
                "type": "array",
                "description": "One, for errors of the host. None when it was no request: malformed, or too large.",
                "items": {
                    "type": "object",
                    "required": ["type", "value"],
                    "properties": {
                        "type": {"type": "string", "const": DETAIL},
                        "value": {
                            "type": "string",
                            "contentEncoding": "base64",
                            "description": "The detail as a protobuf message, in base64 without padding.",
                        },
                        "debug": reference(DETAIL),
                    },
                },
            },
        },
    })
}

/// Returns the error response of a call.
pub(super) fn response() -> Value {
    json!({
        "description": "The call failed.",
        "headers": {"x-api-version": {"$ref": "#/components/headers/ApiVersion"}},
        "content": {"application/json": {"schema": reference(ERROR)}},
    })
}
