//! What a tool call is called on the host, so that one that is sent again is done once.
//!
//! Clients number their requests from 0 in every connection, so a number alone names nothing. A call is named by the
//! *conversation* it belongs to (a random name for each stdio connection and for each HTTP handshake), its id there, and
//! what it asks for. Up to 2025-11-25 an id is never used twice in a conversation: the same request once more is the same
//! call, and gets its answer. From 2026-07-28 on an id may be used again once it was answered, and there are no
//! conversations: every request is a call of its own, unless it says `sandbar/toolCallId` itself.

use rmcp::{
    RoleServer,
    model::{CallToolRequestParams, ProtocolVersion},
    service::RequestContext,
};
use sandbar_core::{Error, Result, SessionId, ToolCallId};
use serde_json::{Value, json};

use crate::version::is_stateless;

/// The caller's own name for a call: one that is repeated under it is done once, also over another connection.
const TOOL_CALL_ID: &str = "sandbar/toolCallId";

/// The name of a conversation. No state hangs on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conversation(String);

impl Conversation {
    /// Longest name that is taken from a client.
    const LONGEST: usize = 128;

    /// A name nobody has had.
    pub(crate) fn new() -> Self {
        Self(SessionId::random().as_str().to_owned())
    }

    /// One a client says it belongs to.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let usable = (1..=Self::LONGEST).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
        usable.then(|| Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a call.
pub(crate) fn call_id(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    version: &ProtocolVersion,
    conversation: Option<&Conversation>,
) -> Result<ToolCallId> {
    let request_id = context.id.clone().into_json_value();
    name(request, &request_id, context.meta.get(TOOL_CALL_ID), conversation.filter(|_| !is_stateless(version)))
}

fn name(
    request: &CallToolRequestParams,
    request_id: &Value,
    given: Option<&Value>,
    conversation: Option<&Conversation>,
) -> Result<ToolCallId> {
    match given {
        Some(Value::String(id)) => return ToolCallId::new(id.clone()),
        Some(_) => return Err(Error::invalid(TOOL_CALL_ID, format!("`{TOOL_CALL_ID}` is not a string"))),
        None => {}
    }
    let name = match conversation {
        Some(conversation) => {
            let whole = json!([conversation.as_str(), request_id, request.name, request.arguments]);
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
    fn only_the_same_request_in_the_same_conversation_is_the_same_call() {
        let (here, there) = (Conversation::new(), Conversation::new());
        let named = |request: &CallToolRequestParams, id: Value, conversation: Option<&Conversation>| {
            name(request, &id, None, conversation).unwrap()
        };
        let first = request("bash", "ls");
        assert_eq!(named(&first, json!(1), Some(&here)), named(&first.clone(), json!(1), Some(&here)));
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
    fn a_caller_may_name_its_call_itself() {
        let named = |given: Value| name(&request("bash", "ls"), &json!(1), Some(&given), None);
        assert_eq!(named(json!("mine")).unwrap().as_str(), "mine");
        for bad in [json!(""), json!(7), json!({})] {
            assert!(named(bad).is_err());
        }
    }

    #[test]
    fn names_of_conversations_that_clients_make_up_are_bounded() {
        assert!(Conversation::named("abc").is_some());
        for bad in ["", "a b", "a\n", &"x".repeat(129)] {
            assert!(Conversation::named(bad).is_none());
        }
    }
}
