//! Audit logs: the shape `--json` prints, and the words the table uses.

use sandbar_core::AuditEntry;
use serde::Serialize;
use serde_json::{Map, Value};

use super::process::shortened;

/// Longest detail shown in the table; `--json` has it whole.
const LONGEST_DETAIL: usize = 120;

/// One entry.
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

/// `key=value` pairs on one line.
pub(crate) fn audit_detail(detail: &Map<String, Value>) -> String {
    let pairs: Vec<String> = detail.iter().map(|(key, value)| format!("{key}={}", text(value))).collect();
    shortened(&pairs.join(" "), LONGEST_DETAIL)
}

/// A value without the marks of JSON, where it can do without.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && !text.contains(char::is_whitespace) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_detail_is_one_line_of_pairs() {
        let Value::Object(detail) = json!({"argv": ["ls", "-l"], "exit_code": 3, "name": "a\nb", "tool": "bash"})
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
