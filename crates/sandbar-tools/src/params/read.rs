//! Parsing of parameters, used by the code that the macros generate.

use std::num::NonZeroU64;

use sandbar_core::{Error, Result, ToolParams, ToolTier};
use serde_json::Value;

use super::kinds::ParamKind;

/// Definition of a tool.
pub(crate) trait Tool: Sized + Send + 'static {
    const NAME: &'static str;
    const TIER: ToolTier;

    /// Returns the description by which a model chooses the tool.
    fn about() -> String;

    /// Returns the JSON Schema of its parameters.
    fn schema() -> Value;

    /// Parses parameters. A wrong, missing or unknown one is an `InvalidArgument` error that names
    /// it.
    fn read(params: ToolParams) -> Result<Self>;
}

/// Removes and parses one parameter.
pub(crate) fn take<K: ParamKind>(
    params: &mut ToolParams,
    name: &'static str,
    default: Option<K>,
) -> Result<K> {
    match params.remove(name) {
        // Some callers send `null` for parameters they leave out.
        None | Some(Value::Null) => default
            .or_else(K::absent)
            .ok_or_else(|| Error::invalid(name, format!("`{name}` is missing"))),
        Some(value) => {
            K::read(value).map_err(|why| Error::invalid(name, format!("`{name}` {why}")))
        }
    }
}

/// Refuses unknown parameters.
pub(crate) fn refuse_unknown(tool: &str, params: &ToolParams, known: &[&str]) -> Result<()> {
    let Some(unknown) = params.keys().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let hint = match known {
        [] => "it takes no parameters".to_owned(),
        known => format!("it takes {}", known.join(", ")),
    };
    let what = format!("`{tool}` has no parameter `{}`", unknown.escape_debug());
    Err(Error::invalid(unknown.clone(), what).with_hint(hint))
}

/// Joins the lines of a doc comment to one paragraph.
pub(crate) fn prose(lines: &[&str]) -> String {
    lines
        .iter()
        .map(|line| line.trim())
        .collect::<Vec<_>>()
        .join(" ")
        .trim()
        .to_owned()
}

/// Returns the name of a field without `r#`.
pub(crate) fn bare(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Converts a default value that is not zero.
pub(crate) const fn count(number: u64) -> NonZeroU64 {
    match NonZeroU64::new(number) {
        Some(count) => count,
        None => NonZeroU64::MIN,
    }
}
