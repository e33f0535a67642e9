//! Validator for the subset of JSON Schema that tools use, and checks of messages.

use serde_json::{Value, json};

/// Checks a value against a schema.
#[track_caller]
pub(crate) fn check(schema: &Value, value: &Value) {
    if let Err(why) = fits(schema, value, "") {
        panic!("{why} in {value}\nschema: {schema}");
    }
}

fn fits(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let reasons: Vec<String> = choices
            .iter()
            .map_while(|choice| fits(choice, value, at).err())
            .collect();
        return if reasons.len() < choices.len() {
            Ok(())
        } else {
            Err(reasons.join("; "))
        };
    }
    if let Some(kind) = schema.get("type") {
        let kinds: Vec<&Value> = kind
            .as_array()
            .map_or_else(|| vec![kind], |kinds| kinds.iter().collect());
        if !kinds.iter().any(|kind| is_a(kind.as_str().unwrap(), value)) {
            return Err(format!("`{at}` is no {kind}"));
        }
    }
    if schema
        .get("const")
        .is_some_and(|expected| expected != value)
    {
        return Err(format!("`{at}` is not {}", schema["const"]));
    }
    if schema
        .get("enum")
        .and_then(Value::as_array)
        .is_some_and(|words| !words.contains(value))
    {
        return Err(format!("`{at}` is not one of {}", schema["enum"]));
    }
    if let Some(object) = value.as_object() {
        for name in schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if !object.contains_key(name.as_str().unwrap()) {
                return Err(format!("`{at}` has no {name}"));
            }
        }
        for (name, value) in object {
            let below = format!("{at}/{name}");
            match (
                schema["properties"].get(name),
                schema.get("additionalProperties"),
            ) {
                (None, Some(Value::Bool(false))) => return Err(format!("`{below}` is unknown")),
                (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => {
                    fits(schema, value, &below)?;
                }
                _ => {}
            }
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        values
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| fits(items, value, &format!("{at}/{index}")))?;
    }
    Ok(())
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    }
}

/// Checks that a message is a valid response, error or progress notification.
#[track_caller]
pub(crate) fn check_message(message: &Value) {
    let id = json!({"type": ["string", "integer"]});
    let version = json!({"const": "2.0"});
    let result = json!({"type": "object", "properties": {"_meta": {"type": "object"}}});
    let answer = json!({
        "type": "object",
        "required": ["jsonrpc", "id", "result"],
        "properties": {"jsonrpc": version, "id": id, "result": result},
        "additionalProperties": false,
    });
    let error = json!({
        "type": "object",
        "required": ["jsonrpc", "error"],
        "properties": {
            "jsonrpc": version,
            "id": id,
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": {}},
                "additionalProperties": false,
            },
        },
        "additionalProperties": false,
    });
    let progress = json!({
        "type": "object",
        "required": ["jsonrpc", "method", "params"],
        "properties": {
            "jsonrpc": version,
            "method": {"const": "notifications/progress"},
            "params": {
                "type": "object",
                "required": ["progressToken", "progress"],
                "properties": {
                    "progressToken": {"type": ["string", "integer"]},
                    "progress": {"type": "number"},
                    "message": {"type": "string"},
                },
                "additionalProperties": false,
            },
        },
        "additionalProperties": false,
    });
    check(&json!({"anyOf": [answer, error, progress]}), message);
}

/// Checks the definition of a tool.
pub(crate) fn tool() -> Value {
    let schema = json!({"type": "object", "required": ["type"], "properties": {"type": {"const": "object"}}});
    let hint = json!({"type": "boolean"});
    json!({
        "type": "object",
        "required": ["name", "description", "inputSchema"],
        "properties": {
            "name": {"type": "string"},
            "title": {"type": "string"},
            "description": {"type": "string"},
            "inputSchema": schema,
            "outputSchema": schema,
            "annotations": {
                "type": "object",
                "properties": {
                    "title": {"type": "string"},
                    "readOnlyHint": hint,
                    "destructiveHint": hint,
                    "idempotentHint": hint,
                    "openWorldHint": hint,
                },
                "additionalProperties": false,
            },
        },
        "additionalProperties": false,
    })
}

/// Checks the result of a tool.
pub(crate) fn tool_result() -> Value {
    let text = json!({
        "type": "object",
        "required": ["type", "text"],
        "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
        "additionalProperties": false,
    });
    let image = json!({
        "type": "object",
        "required": ["type", "data", "mimeType"],
        "properties": {"type": {"const": "image"}, "data": {"type": "string"}, "mimeType": {"type": "string"}},
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "required": ["content"],
        "properties": {
            "content": {"type": "array", "items": {"anyOf": [text, image]}},
            "structuredContent": {"type": "object"},
            "isError": {"type": "boolean"},
            "resultType": {"const": "complete"},
            "_meta": {"type": "object"},
        },
        "additionalProperties": false,
    })
}
