//! Names of templates: `name`, `name:tag`, `namespace/name:tag`.

use crate::rest::{ApiError, ApiResult, bad_request};

/// Tag of a build that was requested without one.
pub(crate) const DEFAULT_TAG: &str = "default";
const MAX_BYTES: usize = 128;

/// Parsed name in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateName {
    /// An id or an alias. The namespace is dropped: this host has one account.
    pub(crate) name: String,
    pub(crate) tag: Option<String>,
}

impl TemplateName {
    pub(crate) fn parse(text: &str) -> ApiResult<Self> {
        let plain = match text.trim().split_once('/') {
            None => text.trim(),
            Some((namespace, name)) if is_word(&namespace.to_lowercase(), "-_.") => name,
            Some(_) => return Err(invalid_name(text)),
        };
        let (name, tag) = match plain.split_once(':') {
            Some((_, tag)) if tag.contains(':') => return Err(invalid_name(text)),
            Some((name, tag)) => (name, Some(check_tag(tag)?)),
            None => (plain, None),
        };
        let name = name.to_lowercase();
        if is_word(&name, "-_.") {
            Ok(Self { name, tag })
        } else {
            Err(invalid_name(text))
        }
    }

    pub(crate) fn tag(&self) -> &str {
        self.tag.as_deref().unwrap_or(DEFAULT_TAG)
    }
}

/// Checks a tag. It may be preceded by the name of the template, as in `tool:v1`.
pub(crate) fn check_tag(text: &str) -> ApiResult<String> {
    let (name, tag) = text
        .rsplit_once(':')
        .map_or((None, text), |(name, tag)| (Some(name.trim()), tag));
    let tag = tag.trim().to_lowercase();
    if is_word(&tag, "-_.") && name != Some("") {
        return Ok(tag);
    }
    Err(bad_request(format!(
        "'{}' is not a valid tag (use letters, digits, `-`, `_` and `.`)",
        text.chars()
            .take(MAX_BYTES)
            .collect::<String>()
            .escape_debug()
    )))
}

fn invalid_name(text: &str) -> ApiError {
    bad_request(format!(
        "'{}' is not a valid template name (use lower-case letters, digits, `-` and `_`)",
        text.chars()
            .take(MAX_BYTES)
            .collect::<String>()
            .escape_debug()
    ))
}

fn is_word(text: &str, others: &str) -> bool {
    let fits = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || others.contains(letter)
    };
    !text.is_empty()
        && text.len() <= MAX_BYTES
        && text.chars().all(fits)
        && text.chars().any(|letter| letter != '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_name_has_a_tag_and_loses_its_namespace() {
        let name = |text: &str| TemplateName::parse(text).unwrap();
        assert_eq!(
            (name("Tool").name.as_str(), name("Tool").tag()),
            ("tool", "default")
        );
        assert_eq!(
            (
                name("team/tool:v1").name.as_str(),
                name("team/tool:v1").tag()
            ),
            ("tool", "v1")
        );
        let long = "a".repeat(129);
        for bad in [
            "",
            ":",
            "a:",
            ":v1",
            "a b",
            "a:b:c",
            "..%2f",
            "ä",
            "a/",
            "..",
            ".",
            "../a",
            "a/b/c",
            "/a",
            "a\0b",
            "a\nb",
            "\u{1b}[1m/a",
            "a:..",
            &long,
        ] {
            assert!(TemplateName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tag_with_an_empty_name_before_it_is_refused() {
        assert_eq!(check_tag("tool:V1").unwrap(), "v1");
        assert_eq!(check_tag(" v1 ").unwrap(), "v1");
        for bad in [":v1", " :v1", "tool:", ":", "", "a b"] {
            assert!(check_tag(bad).is_err(), "{bad}");
        }
    }
}
