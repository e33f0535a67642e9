//! JSON-RPC 2.0 as MCP uses it: ids are text or whole numbers, parameters are objects.

use std::fmt;

use serde_json::{Map, Number, Value, json};

/// The parameters of a message.
pub(crate) type Params = Map<String, Value>;

/// What a request is called by its sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequestId {
    Number(Number),
    Text(String),
}

impl RequestId {
    pub(crate) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) if number.is_i64() || number.is_u64() => Some(Self::Number(number.clone())),
            Value::String(text) => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Number(number) => number.clone().into(),
            Self::Text(text) => text.clone().into(),
        }
    }
}

/// Asks for an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) method: String,
    pub(crate) params: Params,
}

/// Something a client may send.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Request(Request),
    Notification {
        method: String,
        params: Params,
    },
    /// An answer. We ask clients for nothing, so it is an answer to nothing.
    Response,
}

/// What one line, or one body, holds. A message of a batch that makes no sense spoils none of the others.
#[derive(Debug)]
pub(crate) enum Incoming {
    One(Result<Message, Refusal>),
    Batch(Vec<Result<Message, Refusal>>),
}

/// A message that is not one, and whose it was as far as that can be told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) id: Option<RequestId>,
    pub(crate) fault: Fault,
}

impl Refusal {
    pub(crate) fn to_json(&self) -> Value {
        failed(self.id.as_ref(), &self.fault)
    }
}

/// A fault of the protocol. What goes wrong in a tool is an answer, not a fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Fault {
    pub(crate) const PARSE: i64 = -32700;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL: i64 = -32603;
    /// The headers of a request say something else than its body.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// Reads what was sent.
pub(crate) fn read(text: &[u8]) -> Incoming {
    match serde_json::from_slice(text) {
        Ok(Value::Array(messages)) if !messages.is_empty() => Incoming::Batch(messages.into_iter().map(sort).collect()),
        Ok(value) => Incoming::One(sort(value)),
        Err(error) => {
            let fault = Fault::new(Fault::PARSE, format!("this is not JSON: {error}"));
            Incoming::One(Err(Refusal { id: None, fault }))
        }
    }
}

/// Tells requests, notifications and answers apart.
fn sort(value: Value) -> Result<Message, Refusal> {
    let Value::Object(mut message) = value else {
        return Err(Refusal { id: None, fault: Fault::new(Fault::INVALID_REQUEST, "a message is a JSON object") });
    };
    let given = message.remove("id");
    let id = given.as_ref().and_then(RequestId::read);
    let refuse = |why: &str| Err(Refusal { id: id.clone(), fault: Fault::new(Fault::INVALID_REQUEST, why) });
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse("`jsonrpc` is not \"2.0\"");
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if message.contains_key("result") || message.contains_key("error") => return Ok(Message::Response),
        None => return refuse("`method` is missing"),
        Some(_) => return refuse("`method` is not a string"),
    };
    let params = match message.remove("params") {
        None => Params::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return refuse("`params` is not an object"),
    };
    match (given, id.clone()) {
        (None, _) => Ok(Message::Notification { method, params }),
        (Some(_), Some(id)) => Ok(Message::Request(Request { id, method, params })),
        (Some(_), None) => refuse("`id` is neither a string nor a whole number"),
    }
}

/// The answer to a request.
pub(crate) fn answer(id: &RequestId, outcome: &Result<Value, Fault>) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id.to_json(), "result": result}),
        Err(fault) => failed(Some(id), fault),
    }
}

/// An answer that is an error. Nobody's when the request could not be read so far: MCP leaves `id` out then.
pub(crate) fn failed(id: Option<&RequestId>, fault: &Fault) -> Value {
    let mut error = json!({"code": fault.code, "message": fault.message});
    if let Some(data) = &fault.data {
        error["data"] = data.clone();
    }
    let mut message = json!({"jsonrpc": "2.0", "error": error});
    if let Some(id) = id {
        message["id"] = id.to_json();
    }
    message
}

pub(crate) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Message, Refusal> {
        match read(text.as_bytes()) {
            Incoming::One(message) => message,
            Incoming::Batch(batch) => panic!("{batch:?}"),
        }
    }

    #[test]
    fn requests_notifications_and_answers_are_told_apart() {
        let request = one(r#"{"jsonrpc": "2.0", "id": 7, "method": "ping"}"#).unwrap();
        assert!(matches!(request, Message::Request(Request { id: RequestId::Number(_), .. })));
        let request = one(r#"{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": {}, "extra": 1}"#).unwrap();
        assert!(matches!(request, Message::Request(Request { id: RequestId::Text(_), .. })));
        let note = one(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#).unwrap();
        assert!(matches!(note, Message::Notification { .. }));
        for answer in [r#""result": {}"#, r#""error": {"code": 1, "message": "no"}"#] {
            assert_eq!(one(&format!(r#"{{"jsonrpc": "2.0", "id": 1, {answer}}}"#)).unwrap(), Message::Response);
        }
    }

    #[test]
    fn what_is_no_message_is_refused_under_the_id_it_came_with() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for (text, code, id) in [
            ("", Fault::PARSE, None),
            ("{", Fault::PARSE, None),
            ("\u{feff}{}", Fault::PARSE, None),
            (deep.as_str(), Fault::PARSE, None),
            ("{} {}", Fault::PARSE, None),
            ("7", Fault::INVALID_REQUEST, None),
            ("null", Fault::INVALID_REQUEST, None),
            ("[]", Fault::INVALID_REQUEST, None),
            ("{}", Fault::INVALID_REQUEST, None),
            (r#"{"id": 1, "method": "ping"}"#, Fault::INVALID_REQUEST, Some(json!(1))),
            (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, Fault::INVALID_REQUEST, Some(json!(1))),
            (r#"{"jsonrpc": 2.0, "id": "x", "method": "ping"}"#, Fault::INVALID_REQUEST, Some(json!("x"))),
            (r#"{"jsonrpc": "2.0", "id": 1}"#, Fault::INVALID_REQUEST, Some(json!(1))),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": 5}"#, Fault::INVALID_REQUEST, Some(json!(1))),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "a", "params": []}"#, Fault::INVALID_REQUEST, Some(json!(1))),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "a", "params": null}"#, Fault::INVALID_REQUEST, Some(json!(1))),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "a"}"#, Fault::INVALID_REQUEST, None),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "a"}"#, Fault::INVALID_REQUEST, None),
            (r#"{"jsonrpc": "2.0", "id": {}, "method": "a"}"#, Fault::INVALID_REQUEST, None),
            (r#"{"jsonrpc": "2.0", "id": true, "method": "a"}"#, Fault::INVALID_REQUEST, None),
        ] {
            let refusal = one(text).unwrap_err();
            assert_eq!((refusal.fault.code, refusal.id.as_ref().map(RequestId::to_json)), (code, id), "{text}");
        }
        assert!(matches!(read(b"\xff"), Incoming::One(Err(_))));
    }

    #[test]
    fn a_bad_message_of_a_batch_spoils_none_of_the_others() {
        let Incoming::Batch(batch) = read(br#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}, 7]"#) else { panic!() };
        assert!(batch[0].is_ok() && batch[1].is_err());
    }

    #[test]
    fn an_error_that_is_nobodys_has_no_id() {
        let fault = Fault::new(Fault::PARSE, "no");
        assert_eq!(failed(None, &fault), json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "no"}}));
        assert_eq!(failed(Some(&RequestId::Text("x".into())), &fault)["id"], "x");
    }
}
