//! `$NAME` and `${NAME}` in values of steps.

use std::collections::BTreeMap;

/// Puts values in place of names; one nobody has set is empty. Anything else stays as it is.
pub(crate) fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let found = match after.strip_prefix('{') {
            Some(braced) => {
                let name = leading_name(braced);
                braced[name.len()..].strip_prefix('}').filter(|_| !name.is_empty()).map(|left| (name, left))
            }
            None => Some(leading_name(after)).filter(|name| !name.is_empty()).map(|name| (name, &after[name.len()..])),
        };
        if let Some((name, left)) = found {
            expanded.push_str(values.get(name).map(String::as_str).unwrap_or_default());
            rest = left;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

fn leading_name(text: &str) -> &str {
    let fits = |(at, letter): (usize, char)| {
        letter == '_' || letter.is_ascii_alphabetic() || (at > 0 && letter.is_ascii_digit())
    };
    let end = text.char_indices().find(|found| !fits(*found)).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_values_and_the_rest_stays() {
        let values = BTreeMap::from([("PATH".to_owned(), "/bin".to_owned()), ("A1".to_owned(), "x".to_owned())]);
        for (text, expanded) in [
            ("$PATH:/opt", "/bin:/opt"),
            ("${PATH}x$A1", "/binxx"),
            ("$UNKNOWN.", "."),
            ("$", "$"),
            ("$1 ${} ${A1 ${A1:-y} $$", "$1 ${} ${A1 ${A1:-y} $$"),
            ("ä$A1ä", "äxä"),
        ] {
            assert_eq!(expand(text, &values), expanded, "{text}");
        }
    }
}
