//! What a tool call is called on the host, so that one that is sent again is done once.
//!
//! Clients number their requests from 0 in every connection, so a number alone names nothing. A call is named by the
//! *conversation* it belongs to (a random name for each stdio connection and for each HTTP handshake), its id there, and
//! what it asks for. Up to 2025-11-25 an id is never used twice in a conversation: the same request once more is the same
//! call, and gets its answer. From 2026-07-28 on an id may be used again once it was answered, and there are no
//! conversations: every request is a call of its own, unless it says `sandbar/toolCallId` itself.

use sandbar_core::{Result, SessionId, ToolCallId};
use serde_json::Value;

use crate::{jsonrpc::Request, meta::Meta, version::Version};

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
    request: &Request,
    meta: &Meta,
    version: Version,
    conversation: Option<&Conversation>,
) -> Result<ToolCallId> {
    if let Some(id) = &meta.tool_call_id {
        return Ok(id.clone());
    }
    let name = match conversation {
        Some(conversation) if !version.is_stateless() => {
            let asked = [request.params.get("name"), request.params.get("arguments")];
            let parts = asked.map(|part| part.cloned().unwrap_or(Value::Null));
            let whole = serde_json::json!([conversation.as_str(), request.id.to_json(), parts]);
            blake3::hash(whole.to_string().as_bytes()).to_hex()[..32].to_owned()
        }
        _ => SessionId::random().as_str().to_owned(),
    };
    ToolCallId::new(format!("mcp-{name}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jsonrpc::RequestId;

    fn request(id: &Value, tool: &str, cmd: &str) -> Request {
        let Value::Object(params) = json!({"name": tool, "arguments": {"cmd": cmd}}) else { panic!() };
        Request { id: RequestId::read(id).unwrap(), method: "tools/call".into(), params }
    }

    #[test]
    fn only_the_same_request_in_the_same_conversation_is_the_same_call() {
        let (here, there) = (Conversation::new(), Conversation::new());
        let name = |request: &Request, version, conversation: Option<&Conversation>| {
            call_id(request, &Meta::default(), version, conversation).unwrap()
        };
        let old = Version::V2025_06_18;
        let first = request(&json!(1), "bash", "ls");
        assert_eq!(name(&first, old, Some(&here)), name(&first.clone(), old, Some(&here)));
        for other in [
            name(&request(&json!(2), "bash", "ls"), old, Some(&here)),
            name(&request(&json!("1"), "bash", "ls"), old, Some(&here)),
            name(&request(&json!(1), "bash", "pwd"), old, Some(&here)),
            name(&request(&json!(1), "run_code", "ls"), old, Some(&here)),
            name(&first, old, Some(&there)),
            name(&first, old, None),
            name(&first, Version::V2026_07_28, Some(&here)),
        ] {
            assert_ne!(other, name(&first, old, Some(&here)));
        }
        assert_ne!(name(&first, old, None), name(&first, old, None));
    }

    #[test]
    fn a_caller_may_name_its_call_itself() {
        let meta = Meta { tool_call_id: Some(ToolCallId::new("mine").unwrap()), ..Meta::default() };
        let id = call_id(&request(&json!(1), "bash", "ls"), &meta, Version::V2026_07_28, None).unwrap();
        assert_eq!(id.as_str(), "mine");
    }

    #[test]
    fn names_of_conversations_that_clients_make_up_are_bounded() {
        assert!(Conversation::named("abc").is_some());
        for bad in ["", "a b", "a\n", &"x".repeat(129)] {
            assert!(Conversation::named(bad).is_none());
        }
    }
}
