//! Expansion of `$NAME` and `${NAME}` in steps.

use std::collections::BTreeMap;

/// Expands variables; unset ones are empty. Supports `${NAME:-default}` and `${NAME:+alternative}`,
/// and both without the colon, where an empty value counts as set. Anything else is left unchanged.
pub(crate) fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let found = match after.strip_prefix('{') {
            Some(braced) => braced
                .split_once('}')
                .and_then(|(inside, left)| Some((braced_value(inside, values)?, left))),
            None => Some(leading_name(after))
                .filter(|name| !name.is_empty())
                .map(|name| {
                    (
                        values.get(name).cloned().unwrap_or_default(),
                        &after[name.len()..],
                    )
                }),
        };
        if let Some((value, left)) = found {
            expanded.push_str(&value);
            rest = left;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

/// Expands the text between braces; `None` if its syntax is not supported.
fn braced_value(inside: &str, values: &BTreeMap<String, String>) -> Option<String> {
    let name = leading_name(inside);
    if name.is_empty() {
        return None;
    }
    let value = values.get(name);
    let rest = &inside[name.len()..];
    if rest.is_empty() {
        return Some(value.cloned().unwrap_or_default());
    }
    let (value, operation) = match rest.strip_prefix(':') {
        Some(operation) => (value.filter(|value| !value.is_empty()), operation),
        None => (value, rest),
    };
    match (operation.strip_prefix('-'), operation.strip_prefix('+')) {
        (Some(other), _) => Some(value.cloned().unwrap_or_else(|| expand(other, values))),
        (_, Some(other)) => Some(value.map(|_| expand(other, values)).unwrap_or_default()),
        (None, None) => None,
    }
}

fn leading_name(text: &str) -> &str {
    let fits = |(at, letter): (usize, char)| {
        letter == '_' || letter.is_ascii_alphabetic() || (at > 0 && letter.is_ascii_digit())
    };
    let end = text
        .char_indices()
        .find(|found| !fits(*found))
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_and_other_text_is_unchanged() {
        let values = BTreeMap::from([
            ("PATH".to_owned(), "/bin".to_owned()),
            ("A1".to_owned(), "x".to_owned()),
            ("EMPTY".to_owned(), String::new()),
        ]);
        for (text, expanded) in [
            ("$PATH:/opt", "/bin:/opt"),
            ("${PATH}x$A1", "/binxx"),
            ("$UNKNOWN.", "."),
            ("$", "$"),
            ("$1 ${} ${A1 $$", "$1 ${} ${A1 $$"),
            ("${A1%y} ${A1:?no}", "${A1%y} ${A1:?no}"),
            (
                "${A1:-y} ${B:-y} ${B-$A1} ${EMPTY:-y} ${EMPTY-y}.",
                "x y x y .",
            ),
            ("${PATH:+/opt:}${B:+y}${EMPTY+z}", "/opt:z"),
            ("ä$A1ä", "äxä"),
        ] {
            assert_eq!(expand(text, &values), expanded, "{text}");
        }
    }
}
