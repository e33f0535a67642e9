//! Names of templates: `name`, `name:tag`, `namespace/name:tag`.

use crate::templates::refuse;

/// The tag of a build nobody gave another one.
pub(crate) const DEFAULT_TAG: &str = "default";
const LONGEST: usize = 128;

/// A name as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateName {
    /// An id or an alias, without its namespace: there is one here.
    pub(crate) name: String,
    pub(crate) tag: Option<String>,
}

impl TemplateName {
    pub(crate) fn parse(text: &str) -> super::Answer<Self> {
        let plain = text.trim().rsplit('/').next().unwrap_or_default();
        let (name, tag) = match plain.split_once(':') {
            Some((_, tag)) if tag.contains(':') => return Err(no_name(text)),
            Some((name, tag)) => (name, Some(check_tag(tag)?)),
            None => (plain, None),
        };
        let name = name.to_lowercase();
        if is_word(&name, "-_.") { Ok(Self { name, tag }) } else { Err(no_name(text)) }
    }

    pub(crate) fn tag(&self) -> &str {
        self.tag.as_deref().unwrap_or(DEFAULT_TAG)
    }
}

/// A tag that can be one. Some write the name of the template before it, as in `tool:v1`.
pub(crate) fn check_tag(text: &str) -> super::Answer<String> {
    let (name, tag) = text.rsplit_once(':').map_or((None, text), |(name, tag)| (Some(name.trim()), tag));
    let tag = tag.trim().to_lowercase();
    if is_word(&tag, "-_.") && name != Some("") {
        return Ok(tag);
    }
    Err(refuse(format!(
        "'{}' is no tag (use letters, digits, `-`, `_` and `.`)",
        text.chars().take(LONGEST).collect::<String>().escape_debug()
    )))
}

fn no_name(text: &str) -> super::ControlError {
    refuse(format!(
        "'{}' is no name of a template (use lower-case letters, digits, `-` and `_`)",
        text.chars().take(LONGEST).collect::<String>().escape_debug()
    ))
}

fn is_word(text: &str, others: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || others.contains(letter);
    !text.is_empty() && text.len() <= LONGEST && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_tag_and_lose_their_namespace() {
        let name = |text: &str| TemplateName::parse(text).unwrap();
        assert_eq!((name("Tool").name.as_str(), name("Tool").tag()), ("tool", "default"));
        assert_eq!((name("team/tool:v1").name.as_str(), name("team/tool:v1").tag()), ("tool", "v1"));
        for bad in ["", ":", "a:", ":v1", "a b", "a:b:c", "..%2f", "ä", "a/"] {
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
