//! The `authorization` header.

const SCHEME: &[u8] = b"Bearer ";

/// Returns the token of an `authorization` header with scheme `Bearer`, untrimmed.
pub(crate) fn token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    SCHEME.eq_ignore_ascii_case(scheme).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_follows_the_scheme_and_is_not_trimmed() {
        for (value, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("BEARER abc ", Some("abc ")),
            ("Bearer ", Some("")),
            ("Bearer", None),
            ("Basic abc", None),
            ("abc", None),
            ("", None),
        ] {
            assert_eq!(
                token(value.as_bytes()),
                expected.map(str::as_bytes),
                "{value:?}"
            );
        }
    }
}
