//! Presentation of audit entries.

use sandbar_core::AuditEntry;
use serde::Serialize;
use serde_json::{Map, Value};

use super::process::shortened;

/// Details are cut to this length in the table; `--json` has them whole.
const MAX_DETAIL_LENGTH: usize = 120;

/// JSON of an audit entry.
#[derive(Debug, Serialize)]
pub(crate) struct AuditView<'a> {
    number: u64,
    session_id: &'a str,
    at: String,
    who: &'a str,
    what: &'a str,
    outcome: &'a str,
    detail: &'a Map<String, Value>,
    chain: &'a str,
}

impl<'a> From<&'a AuditEntry> for AuditView<'a> {
    fn from(entry: &'a AuditEntry) -> Self {
        Self {
            number: entry.number,
            session_id: entry.session.as_str(),
            at: entry.at.to_string(),
            who: entry.who.as_str(),
            what: &entry.what,
            outcome: &entry.outcome,
            detail: &entry.detail,
            chain: &entry.chain,
        }
    }
}

/// Formats details as `key=value` pairs on one line.
pub(crate) fn audit_detail(detail: &Map<String, Value>) -> String {
    let pairs: Vec<String> = detail
        .iter()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    shortened(&pairs.join(" "), MAX_DETAIL_LENGTH)
}

/// Formats a value; strings without spaces lose their quotes.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && !text.contains(char::is_whitespace) => {
            text.clone()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn detail_is_one_line_of_pairs() {
        let Value::Object(detail) =
            json!({"argv": ["ls", "-l"], "exit_code": 3, "name": "a\nb", "tool": "bash"})
        else {
            panic!("not an object")
        };
        let line = audit_detail(&detail);
        assert!(!line.contains('\n'), "{line}");
        for part in ["argv=[\"ls\",\"-l\"]", "exit_code=3", "tool=bash"] {
            assert!(line.contains(part), "{line}");
        }
    }
}
