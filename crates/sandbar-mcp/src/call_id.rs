//! Idempotency ids of tool calls: the host executes a call with the same id once.
//!
//! Clients number their requests from 0 in every connection, so a request id alone is not unique.
//! The id of a call is a hash of its MCP session (a random name for each stdio connection and each
//! HTTP handshake), its request id there, tool and arguments. Up to version 2025-11-25 a request id
//! is never reused in a session: the same request again is a retry, and gets the same result. From
//! 2026-07-28 on a request id may be reused after its response, and there are no sessions: every
//! request is a new call, unless it has `sandbar/toolCallId`.

use rmcp::{
    RoleServer,
    model::{CallToolRequestParams, ProtocolVersion},
    service::RequestContext,
};
use sandbar_core::{Error, Result, SessionId, ToolCallId};
use serde_json::{Value, json};

use crate::version::is_stateless;

/// `_meta` key for an id chosen by the caller. It makes a retry idempotent across connections.
const TOOL_CALL_ID: &str = "sandbar/toolCallId";

/// Name of an MCP session. The server keeps no state for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct McpSession(String);

impl McpSession {
    /// Longest name accepted from a client.
    const MAX_LENGTH: usize = 128;

    /// Returns a new random name.
    pub(crate) fn new() -> Self {
        Self(SessionId::random().as_str().to_owned())
    }

    /// Returns the session that a client names, if the name is valid.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let usable = (1..=Self::MAX_LENGTH).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_graphic());
        usable.then(|| Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the id of a call.
pub(crate) fn call_id(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    version: &ProtocolVersion,
    mcp_session: Option<&McpSession>,
) -> Result<ToolCallId> {
    let request_id = context.id.clone().into_json_value();
    name(
        request,
        &request_id,
        context.meta.get(TOOL_CALL_ID),
        mcp_session.filter(|_| !is_stateless(version)),
    )
}

fn name(
    request: &CallToolRequestParams,
    request_id: &Value,
    given: Option<&Value>,
    mcp_session: Option<&McpSession>,
) -> Result<ToolCallId> {
    match given {
        Some(Value::String(id)) => return ToolCallId::new(id.clone()),
        Some(_) => {
            return Err(Error::invalid(
                TOOL_CALL_ID,
                format!("`{TOOL_CALL_ID}` is not a string"),
            ));
        }
        None => {}
    }
    let name = match mcp_session {
        Some(mcp_session) => {
            let whole = json!([
                mcp_session.as_str(),
                request_id,
                request.name,
                request.arguments
            ]);
            blake3::hash(whole.to_string().as_bytes()).to_hex()[..32].to_owned()
        }
        None => SessionId::random().as_str().to_owned(),
    };
    ToolCallId::new(format!("mcp-{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(tool: &str, cmd: &str) -> CallToolRequestParams {
        let arguments = [("cmd".to_owned(), json!(cmd))].into_iter().collect();
        CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
    }

    #[test]
    fn only_the_same_request_in_the_same_session_has_the_same_id() {
        let (here, there) = (McpSession::new(), McpSession::new());
        let named =
            |request: &CallToolRequestParams, id: Value, mcp_session: Option<&McpSession>| {
                name(request, &id, None, mcp_session).unwrap()
            };
        let first = request("bash", "ls");
        assert_eq!(
            named(&first, json!(1), Some(&here)),
            named(&first.clone(), json!(1), Some(&here))
        );
        for other in [
            named(&first, json!(2), Some(&here)),
            named(&first, json!("1"), Some(&here)),
            named(&request("bash", "pwd"), json!(1), Some(&here)),
            named(&request("run_code", "ls"), json!(1), Some(&here)),
            named(&first, json!(1), Some(&there)),
            named(&first, json!(1), None),
        ] {
            assert_ne!(other, named(&first, json!(1), Some(&here)));
        }
        assert_ne!(named(&first, json!(1), None), named(&first, json!(1), None));
    }

    #[test]
    fn caller_may_choose_the_call_id() {
        let named = |given: Value| name(&request("bash", "ls"), &json!(1), Some(&given), None);
        assert_eq!(named(json!("mine")).unwrap().as_str(), "mine");
        for bad in [json!(""), json!(7), json!({})] {
            assert!(named(bad).is_err());
        }
    }

    #[test]
    fn session_names_of_clients_are_bounded() {
        assert!(McpSession::named("abc").is_some());
        for bad in ["", "a b", "a\n", &"x".repeat(129)] {
            assert!(McpSession::named(bad).is_none());
        }
    }
}
