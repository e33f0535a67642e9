//! What a request says about itself, in `_meta`.

use sandbar_core::ToolCallId;
use serde_json::Value;

use crate::{
    jsonrpc::{Fault, Params},
    version::{Version, unsupported},
};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The caller's own name for a call: one that is repeated under it is done once, also over another connection.
const TOOL_CALL_ID: &str = "sandbar/toolCallId";

/// The `_meta` of a request, as far as it is about us.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meta {
    /// The version this very request speaks, when it says.
    pub(crate) version: Option<Version>,
    /// What progress of this request is to be called by: text or a number.
    pub(crate) progress_token: Option<Value>,
    pub(crate) tool_call_id: Option<ToolCallId>,
}

impl Meta {
    pub(crate) fn read(params: &Params) -> Result<Self, Fault> {
        let meta = match params.get("_meta") {
            None => return Ok(Self::default()),
            Some(Value::Object(meta)) => meta,
            Some(_) => return Err(Fault::invalid_params("`_meta` is not an object")),
        };
        let version = match meta.get(VERSION) {
            None => None,
            Some(Value::String(asked)) => Some(Version::find(asked).ok_or_else(|| unsupported(asked))?),
            Some(_) => return Err(Fault::invalid_params(format!("`{VERSION}` is not a string"))),
        };
        if version.is_some_and(Version::is_stateless) && !meta.get(CAPABILITIES).is_some_and(Value::is_object) {
            return Err(Fault::invalid_params(format!("`{CAPABILITIES}` is missing, or not an object")));
        }
        let progress_token = match meta.get("progressToken") {
            None => None,
            Some(token @ (Value::String(_) | Value::Number(_))) => Some(token.clone()),
            Some(_) => return Err(Fault::invalid_params("`progressToken` is neither a string nor a number")),
        };
        let tool_call_id = match meta.get(TOOL_CALL_ID) {
            None => None,
            Some(Value::String(id)) => {
                Some(ToolCallId::new(id.clone()).map_err(|error| Fault::invalid_params(error.message()))?)
            }
            Some(_) => return Err(Fault::invalid_params(format!("`{TOOL_CALL_ID}` is not a string"))),
        };
        Ok(Self { version, progress_token, tool_call_id })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(meta: &Value) -> Result<Meta, Fault> {
        Meta::read(&Params::from_iter([("_meta".into(), meta.clone())]))
    }

    #[test]
    fn a_request_may_say_its_version_its_progress_token_and_its_name() {
        let meta = read(&json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": 3,
            "sandbar/toolCallId": "once",
        }))
        .unwrap();
        assert_eq!(meta.version, Some(Version::V2026_07_28));
        assert_eq!(meta.progress_token, Some(json!(3)));
        assert_eq!(meta.tool_call_id.unwrap().as_str(), "once");
        let meta = Meta::read(&Params::new()).unwrap();
        assert!(meta.version.is_none() && meta.progress_token.is_none() && meta.tool_call_id.is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (meta, code) in [
            (json!(7), Fault::INVALID_PARAMS),
            (json!({"progressToken": {}}), Fault::INVALID_PARAMS),
            (json!({"sandbar/toolCallId": ""}), Fault::INVALID_PARAMS),
            (json!({"io.modelcontextprotocol/protocolVersion": 1}), Fault::INVALID_PARAMS),
            (json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}), Fault::INVALID_PARAMS),
            (json!({"io.modelcontextprotocol/protocolVersion": "1900-01-01"}), Fault::UNSUPPORTED_VERSION),
        ] {
            assert_eq!(read(&meta).unwrap_err().code, code, "{meta}");
        }
    }
}
