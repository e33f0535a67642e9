//! Parameters of tools: one definition makes the Rust type, its reader and its JSON Schema.

mod define;
mod kinds;

pub(crate) use define::{choice, tool};
pub(crate) use kinds::{FilePath, GitRef, GlobPattern, ParamKind};

use std::num::NonZeroU64;

use sandbar_core::{Error, Result, ToolParams, ToolTier};
use serde_json::Value;

/// A tool as its definition has it.
pub(crate) trait Tool: Sized + Send + 'static {
    const NAME: &'static str;
    const TIER: ToolTier;

    /// What it does, for whoever chooses a tool.
    fn about() -> String;

    /// JSON Schema of its parameters.
    fn schema() -> Value;

    /// Reads parameters. What is wrong, missing or unknown is `InvalidArgument`, and the parameter is named.
    fn read(params: ToolParams) -> Result<Self>;
}

/// Takes one parameter out of those that were given.
pub(crate) fn take<K: ParamKind>(params: &mut ToolParams, name: &'static str, default: Option<K>) -> Result<K> {
    match params.remove(name) {
        // Callers that fill in every parameter write `null` for what they leave out.
        None | Some(Value::Null) => {
            default.or_else(K::absent).ok_or_else(|| Error::invalid(name, format!("`{name}` is missing")))
        }
        Some(value) => K::read(value).map_err(|why| Error::invalid(name, format!("`{name}` {why}"))),
    }
}

/// Refuses parameters a tool does not have.
pub(crate) fn refuse_unknown(tool: &str, params: &ToolParams, known: &[&str]) -> Result<()> {
    let Some(unknown) = params.keys().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let hint = match known {
        [] => "it takes no parameters".to_owned(),
        known => format!("it takes {}", known.join(", ")),
    };
    let what = format!("`{tool}` has no parameter `{}`", unknown.escape_debug());
    Err(Error::invalid(unknown.clone(), what).with_hint(hint))
}

/// The text of doc comments: one paragraph, without the space that follows `///`.
pub(crate) fn prose(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// The name of a field without the mark that lets a keyword be one.
pub(crate) fn bare(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// A default that is not zero.
pub(crate) const fn count(number: u64) -> NonZeroU64 {
    match NonZeroU64::new(number) {
        Some(count) => count,
        None => NonZeroU64::MIN,
    }
}
