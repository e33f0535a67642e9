//! Types of tool parameters.

use std::{collections::BTreeMap, num::NonZeroU64};

use globset::GlobSet;
use sandbar_core::ToolParams;
use serde_json::{Value, json};

/// Type of a parameter.
pub(crate) trait ParamKind: Sized {
    /// Returns the JSON Schema of a value.
    fn schema() -> ToolParams;

    /// Parses a value. The error is a phrase that continues the parameter's name.
    fn read(value: Value) -> Result<Self, String>;

    /// Returns the value of a parameter that was left out; `None` when it is required.
    fn absent() -> Option<Self> {
        None
    }

    /// Returns the value as JSON, for use as a default.
    fn show(&self) -> Value {
        Value::Null
    }
}

/// 2⁵³: beyond it, parsers that read JSON numbers as doubles lose precision.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_992.0;

fn object(value: Value) -> ToolParams {
    match value {
        Value::Object(object) => object,
        _ => ToolParams::new(),
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn wrong(value: &Value, wanted: &str) -> String {
    format!("is {}, and must be {wanted}", name_of(value))
}

impl ParamKind for String {
    fn schema() -> ToolParams {
        object(json!({"type": "string"}))
    }

    fn read(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(wrong(&other, "a string")),
        }
    }

    fn show(&self) -> Value {
        self.as_str().into()
    }
}

impl ParamKind for bool {
    fn schema() -> ToolParams {
        object(json!({"type": "boolean"}))
    }

    fn read(value: Value) -> Result<Self, String> {
        value
            .as_bool()
            .ok_or_else(|| wrong(&value, "true or false"))
    }

    fn show(&self) -> Value {
        (*self).into()
    }
}

impl ParamKind for u64 {
    fn schema() -> ToolParams {
        object(json!({"type": "integer", "minimum": 0}))
    }

    fn read(value: Value) -> Result<Self, String> {
        let Value::Number(number) = &value else {
            return Err(wrong(&value, "a whole number"));
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be whole and in range"
        )]
        let whole = |float: f64| {
            (float.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(&float))
                .then_some(float as u64)
        };
        number
            .as_u64()
            .or_else(|| number.as_f64().and_then(whole))
            .ok_or_else(|| format!("is {number}, and must be a whole number that is not negative"))
    }

    fn show(&self) -> Value {
        (*self).into()
    }
}

impl ParamKind for NonZeroU64 {
    fn schema() -> ToolParams {
        object(json!({"type": "integer", "minimum": 1}))
    }

    fn read(value: Value) -> Result<Self, String> {
        Self::new(u64::read(value)?).ok_or_else(|| "is 0, and must be at least 1".to_owned())
    }

    fn show(&self) -> Value {
        self.get().into()
    }
}

impl<K: ParamKind> ParamKind for Option<K> {
    fn schema() -> ToolParams {
        K::schema()
    }

    fn read(value: Value) -> Result<Self, String> {
        K::read(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn show(&self) -> Value {
        self.as_ref().map_or(Value::Null, K::show)
    }
}

impl<K: ParamKind> ParamKind for Vec<K> {
    fn schema() -> ToolParams {
        object(json!({"type": "array", "items": K::schema()}))
    }

    fn read(value: Value) -> Result<Self, String> {
        match value {
            Value::Array(items) => items
                .into_iter()
                .enumerate()
                .map(|(position, item)| {
                    K::read(item)
                        .map_err(|why| format!("has an item (number {position}) that {why}"))
                })
                .collect(),
            other => Err(wrong(&other, "a list")),
        }
    }

    fn show(&self) -> Value {
        self.iter().map(K::show).collect()
    }
}

/// Environment variables.
impl ParamKind for BTreeMap<String, String> {
    fn schema() -> ToolParams {
        object(json!({"type": "object", "additionalProperties": {"type": "string"}}))
    }

    fn read(value: Value) -> Result<Self, String> {
        let Value::Object(entries) = value else {
            return Err(wrong(&value, "an object of strings"));
        };
        entries
            .into_iter()
            .map(|(name, value)| {
                let value = String::read(value)
                    .map_err(|why| format!("has `{}`, which {why}", name.escape_debug()))?;
                if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                    return Err(format!(
                        "has the variable `{}`, which is invalid in an environment",
                        name.escape_debug()
                    ));
                }
                Ok((name, value))
            })
            .collect()
    }

    fn show(&self) -> Value {
        json!(self)
    }
}

/// Path inside the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePath(String);

impl FilePath {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl ParamKind for FilePath {
    fn schema() -> ToolParams {
        object(json!({"type": "string", "minLength": 1}))
    }

    fn read(value: Value) -> Result<Self, String> {
        match String::read(value)? {
            path if path.is_empty() => {
                Err("is empty, and must be a path inside the sandbox".into())
            }
            path if path.contains('\0') => {
                Err("contains NUL, which is invalid in file names".into())
            }
            path => Ok(Self(path)),
        }
    }

    fn show(&self) -> Value {
        self.0.as_str().into()
    }
}

/// Commit, branch, tag, remote or URL for git. Values that git would parse as an option are
/// refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitRef(String);

impl GitRef {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl ParamKind for GitRef {
    fn schema() -> ToolParams {
        object(json!({"type": "string", "minLength": 1, "pattern": "^[^-]"}))
    }

    fn read(value: Value) -> Result<Self, String> {
        match String::read(value)? {
            text if text.is_empty() => Err("is empty".into()),
            text if text.starts_with('-') => Err(format!(
                "is `{}`, and must not begin with `-`",
                text.escape_debug()
            )),
            text if text.contains(char::is_control) => Err("contains a control character".into()),
            text => Ok(Self(text)),
        }
    }
}

/// Glob of paths, in which `*` does not match `/` and `**` does.
#[derive(Clone, Debug)]
pub(crate) struct GlobPattern(String);

impl GlobPattern {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compiles a part of a pattern. The error is a phrase that continues the parameter's name.
    pub(crate) fn compile(pattern: &str) -> Result<GlobSet, String> {
        crate::patterns::glob(pattern)
    }
}

impl ParamKind for GlobPattern {
    fn schema() -> ToolParams {
        object(json!({"type": "string", "minLength": 1}))
    }

    fn read(value: Value) -> Result<Self, String> {
        let pattern = String::read(value)?;
        if pattern.is_empty() {
            return Err("is empty".into());
        }
        if pattern.contains('\0') {
            return Err("contains NUL, which is invalid in file names".into());
        }
        Self::compile(&pattern)?;
        Ok(Self(pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_taken_in_every_form_json_gives_them() {
        for (given, read) in [
            (json!(7), 7),
            (json!(7.0), 7),
            (json!(0), 0),
            (json!(1e3), 1000),
        ] {
            assert_eq!(u64::read(given).unwrap(), read);
        }
        for bad in [
            json!(-1),
            json!(1.5),
            json!("7"),
            json!(1e300),
            json!(true),
            json!([7]),
        ] {
            assert!(u64::read(bad.clone()).is_err(), "{bad}");
        }
        assert!(NonZeroU64::read(json!(0)).is_err());
    }

    #[test]
    fn what_git_would_take_for_an_option_is_refused() {
        for bad in ["", "-", "--upload-pack=touch /tmp/x", "-c", "a\nb"] {
            assert!(GitRef::read(json!(bad)).is_err(), "{bad}");
        }
        for good in [
            "main",
            "HEAD~3",
            "refs/heads/x",
            "v1..v2",
            "https://example.com/a.git",
            ":/fix",
        ] {
            assert_eq!(GitRef::read(json!(good)).unwrap().as_str(), good);
        }
    }

    #[test]
    fn variables_no_environment_can_hold_are_refused() {
        let read = |value| BTreeMap::<String, String>::read(value);
        assert_eq!(read(json!({"A": "b=c"})).unwrap()["A"], "b=c");
        for bad in [
            json!({"A=B": "x"}),
            json!({"": "x"}),
            json!({"A": "\0"}),
            json!({"A": 1}),
            json!("A=B"),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
