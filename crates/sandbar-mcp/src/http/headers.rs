//! What the headers of a request say, and whether its body says the same.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, header};
use serde_json::Value;

use crate::{
    call_id::Conversation,
    jsonrpc::{Fault, Request},
    meta::Meta,
    version::{Version, unsupported},
};

const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Names the conversation.
pub(super) const SESSION: &str = "mcp-session-id";

/// In which forms a client takes answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    /// A client that does not say takes anything.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let fields: Vec<&str> =
            headers.get_all(header::ACCEPT).iter().filter_map(|field| field.to_str().ok()).collect();
        if fields.is_empty() {
            return Self { json: true, events: true };
        }
        let takes = |form: &str| {
            let kind = form.split('/').next().unwrap_or_default();
            fields.iter().flat_map(|field| field.split(',')).any(|range| {
                let mut parts = range.split(';').map(str::trim);
                let range = parts.next().unwrap_or_default().to_ascii_lowercase();
                let refused = parts.any(|part| part.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0)));
                !refused && (range == form || range == "*/*" || range == format!("{kind}/*"))
            })
        };
        Self { json: takes("application/json"), events: takes("text/event-stream") }
    }
}

/// Whether the body is said to be JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The version a request is said to speak.
pub(super) fn version(headers: &HeaderMap) -> Result<Option<Version>, Fault> {
    let Some(said) = headers.get(VERSION) else { return Ok(None) };
    let said = said.to_str().unwrap_or_default();
    Version::find(said).map(Some).ok_or_else(|| unsupported(said))
}

/// The conversation a request is said to belong to.
pub(super) fn conversation(headers: &HeaderMap) -> Option<Conversation> {
    Conversation::named(headers.get(SESSION)?.to_str().ok()?)
}

/// Whether headers and body of a request agree, as far as its version wants that; the version it speaks.
pub(super) fn agree(headers: &HeaderMap, said: Option<Version>, request: &Request) -> Result<Version, Fault> {
    let meta = Meta::read(&request.params)?;
    let version = match (said, meta.version) {
        (Some(said), Some(meant)) if said != meant => {
            return Err(mismatch(format!("`{VERSION}` is {}, and the body says {}", said.as_str(), meant.as_str())));
        }
        (None, Some(meant)) if meant.is_stateless() => return Err(mismatch(format!("`{VERSION}` is missing"))),
        (Some(said), None) if said.is_stateless() => {
            return Err(Fault::invalid_params("`_meta` does not say which version of the protocol the request speaks"));
        }
        (said, meant) => meant.or(said).unwrap_or(Version::UNSAID),
    };
    if version.is_stateless() {
        compare(headers, METHOD, &request.method)?;
        if let ("tools/call", Some(Value::String(name))) = (request.method.as_str(), request.params.get("name")) {
            compare(headers, NAME, name)?;
        }
    }
    Ok(version)
}

fn compare(headers: &HeaderMap, name: &str, meant: &str) -> Result<(), Fault> {
    let field = headers.get(name).ok_or_else(|| mismatch(format!("`{name}` is missing")))?;
    match field.to_str().ok().and_then(decode) {
        Some(said) if said == meant => Ok(()),
        Some(said) => Err(mismatch(format!("`{name}` is `{}`, and the body says another", said.escape_debug()))),
        None => Err(mismatch(format!("`{name}` cannot be read"))),
    }
}

/// Text that is no plain ASCII comes in Base64, between marks.
fn decode(field: &str) -> Option<String> {
    match field.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(field.to_owned()),
    }
}

fn mismatch(message: String) -> Fault {
    Fault::new(Fault::HEADER_MISMATCH, message)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;
    use crate::jsonrpc::{Params, RequestId};

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let field =
            |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        fields.iter().map(field).collect()
    }

    fn request(version: Option<&str>) -> Request {
        let mut params = Params::from_iter([("name".into(), json!("bash"))]);
        if let Some(version) = version {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            params.insert("_meta".into(), meta);
        }
        Request { id: RequestId::Text("a".into()), method: "tools/call".into(), params }
    }

    #[test]
    fn what_is_taken_is_what_the_accept_header_names() {
        let accepts = |field: &str| {
            let Accepts { json, events } = Accepts::read(&headers(&[("accept", field)]));
            (json, events)
        };
        assert_eq!(accepts("application/json, text/event-stream"), (true, true));
        assert_eq!(accepts("Application/JSON;charset=utf-8"), (true, false));
        assert_eq!(accepts("text/*"), (false, true));
        assert_eq!(accepts("*/*"), (true, true));
        assert_eq!(accepts("text/html"), (false, false));
        assert_eq!(accepts("application/json;q=0, text/event-stream"), (false, true));
        assert_eq!(Accepts::read(&HeaderMap::new()), Accepts { json: true, events: true });
    }

    #[test]
    fn headers_and_body_have_to_agree_from_the_stateless_version_on() {
        let new = "2026-07-28";
        let all = [(VERSION, new), (METHOD, "tools/call"), (NAME, "bash")];
        let check = |fields: &[(&str, &str)], version: Option<&str>| {
            let headers = headers(fields);
            agree(&headers, super::version(&headers)?, &request(version))
        };
        let check = |fields: &[(&str, &str)], version| check(fields, version).map_err(|fault: Fault| fault.code);
        assert_eq!(check(&all, Some(new)), Ok(Version::V2026_07_28));
        let encoded = [(VERSION, new), (METHOD, "tools/call"), (NAME, "=?base64?YmFzaA==?=")];
        assert_eq!(check(&encoded, Some(new)), Ok(Version::V2026_07_28));
        assert_eq!(check(&[], None), Ok(Version::V2025_03_26));
        assert_eq!(check(&[(VERSION, "2025-11-25")], None), Ok(Version::V2025_11_25));
        for (fields, version, code) in [
            (&all[..0], Some(new), Fault::HEADER_MISMATCH),
            (&all[..1], Some(new), Fault::HEADER_MISMATCH),
            (&all[..2], Some(new), Fault::HEADER_MISMATCH),
            (&[(VERSION, new), (METHOD, "tools/call"), (NAME, "ls")], Some(new), Fault::HEADER_MISMATCH),
            (&[(VERSION, new), (METHOD, "tools/list"), (NAME, "bash")], Some(new), Fault::HEADER_MISMATCH),
            (&[(VERSION, new), (METHOD, "tools/call"), (NAME, "=?base64?!?=")], Some(new), Fault::HEADER_MISMATCH),
            (&[(VERSION, "2025-11-25")], Some(new), Fault::HEADER_MISMATCH),
            (&all[..], None, Fault::INVALID_PARAMS),
            (&[(VERSION, "1999-01-01")], None, Fault::UNSUPPORTED_VERSION),
        ] {
            assert_eq!(check(fields, version), Err(code), "{fields:?} {version:?}");
        }
    }

    #[test]
    fn a_body_is_json_when_it_says_so() {
        assert!(is_json(&headers(&[("content-type", "application/json; charset=utf-8")])));
        assert!(!is_json(&headers(&[("content-type", "text/plain")])) && !is_json(&HeaderMap::new()));
    }
}
