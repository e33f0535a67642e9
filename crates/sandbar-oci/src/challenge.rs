//! Parser of `WWW-Authenticate` challenges of a registry.

use std::collections::BTreeMap;

/// Authentication scheme of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    /// Bearer token from a token server.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl Challenge {
    /// Parses the first challenge with a supported scheme.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut said = parameters(rest);
        Some(Self::Bearer {
            realm: said.remove("realm")?,
            service: said.remove("service"),
            scope: said.remove("scope"),
        })
    }
}

/// Parses comma-separated `key="value"` pairs. A malformed one ends the list.
fn parameters(mut rest: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim_matches([' ', ',', '\t']).to_ascii_lowercase();
        let after = after.trim_start();
        let found = if let Some(quoted) = after.strip_prefix('"') {
            unquote(quoted)
        } else {
            let (value, remaining) = after.split_once(',').unwrap_or((after, ""));
            Some((value.trim().to_owned(), remaining))
        };
        let Some((value, remaining)) = found else {
            break;
        };
        all.insert(key, value);
        rest = remaining;
    }
    all
}

/// Returns the text up to the closing quote, and the rest.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_challenges_are_read_with_their_parts() {
        let header = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push""#;
        let challenge = Challenge::Bearer {
            realm: "https://auth.example/token".into(),
            service: Some("registry.example".into()),
            scope: Some("repository:a/b:pull,push".into()),
        };
        assert_eq!(Challenge::parse(header), Some(challenge));
        let bare = Challenge::Bearer {
            realm: "x\"y".into(),
            service: None,
            scope: None,
        };
        assert_eq!(Challenge::parse(r#"bearer realm="x\"y""#), Some(bare));
    }

    #[test]
    fn basic_is_known_and_the_rest_is_not() {
        assert_eq!(
            Challenge::parse("Basic realm=\"x\""),
            Some(Challenge::Basic)
        );
        assert_eq!(Challenge::parse("basic"), Some(Challenge::Basic));
        for unknown in [
            "",
            "Negotiate",
            "Bearer",
            "Bearer service=\"x\"",
            "Bearer realm=\"x",
        ] {
            assert_eq!(Challenge::parse(unknown), None, "{unknown}");
        }
    }
}
