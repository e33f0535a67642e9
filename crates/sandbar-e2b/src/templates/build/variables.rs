//! Expansion of `$NAME` and `${NAME}` in steps.

use std::collections::BTreeMap;

use sandbar_core::{Error, Result};

use super::plan::MAX_TEXT_BYTES;

/// Expands variables; unset ones are empty. Supports `${NAME:-default}` and `${NAME:+alternative}`,
/// and both without the colon, where an empty value counts as set. Anything else is left unchanged.
///
/// A result longer than a program can be given is an error: a value may hold another twice, so a
/// few steps could make one of gigabytes.
pub(crate) fn expand(text: &str, values: &BTreeMap<String, String>) -> Result<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    let mut may_close = text.contains('}');
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let found = match after.strip_prefix('{') {
            // Searching for the end again for every `${` would cost the square of the length.
            Some(braced) if may_close && begins_expansion(braced) => {
                let split = braced.split_once('}');
                may_close = split.is_some();
                match split {
                    Some((inside, left)) => {
                        braced_value(inside, values)?.map(|value| (value, left))
                    }
                    None => None,
                }
            }
            Some(_) => None,
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
            require_length(&expanded)?;
            rest = left;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    require_length(&expanded)?;
    Ok(expanded)
}

fn require_length(expanded: &str) -> Result<()> {
    if expanded.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(Error::invalid(
        "args",
        format!("text with variables expands to more than {MAX_TEXT_BYTES} bytes"),
    ))
}

/// Returns whether a text after `${` begins with a name and an operation that is supported.
fn begins_expansion(braced: &str) -> bool {
    let name = leading_name(braced);
    let rest = &braced[name.len()..];
    let operation = rest.strip_prefix(':').unwrap_or(rest);
    !name.is_empty() && (rest.starts_with('}') || operation.starts_with(['-', '+']))
}

/// Expands the text between braces; `None` if its syntax is not supported.
fn braced_value(inside: &str, values: &BTreeMap<String, String>) -> Result<Option<String>> {
    let name = leading_name(inside);
    if name.is_empty() {
        return Ok(None);
    }
    let value = values.get(name);
    let rest = &inside[name.len()..];
    if rest.is_empty() {
        return Ok(Some(value.cloned().unwrap_or_default()));
    }
    let (value, operation) = match rest.strip_prefix(':') {
        Some(operation) => (value.filter(|value| !value.is_empty()), operation),
        None => (value, rest),
    };
    Ok(
        match (
            operation.strip_prefix('-'),
            operation.strip_prefix('+'),
            value,
        ) {
            (Some(_), _, Some(value)) => Some(value.clone()),
            (Some(other), _, None) | (_, Some(other), Some(_)) => Some(expand(other, values)?),
            (_, Some(_), None) => Some(String::new()),
            (None, None, _) => None,
        },
    )
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
            ("${${A1}", "${x"),
            ("${A1:-${B:-y}", "x"),
            ("${B:-${A1:-y}", "${A1:-y"),
            ("${A1", "${A1"),
        ] {
            assert_eq!(expand(text, &values).unwrap(), expanded, "{text}");
        }
    }

    #[test]
    fn value_that_doubles_at_each_step_is_refused() {
        let mut values = BTreeMap::from([("A".to_owned(), "x".repeat(1000))]);
        for _ in 0..7 {
            let doubled = expand("$A$A", &values).unwrap();
            values.insert("A".to_owned(), doubled);
        }
        let error = expand("$A$A", &values).unwrap_err();
        assert!(error.message().contains("131072 bytes"), "{error}");
        expand("${B:-$A$A}", &values).unwrap_err();
        expand(&"y".repeat(200_000), &values).unwrap_err();
    }
}
