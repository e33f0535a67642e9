//! The `authorization` header.

const SCHEME: &[u8] = b"Bearer ";

/// The token in what callers send as `authorization`.
pub(crate) fn token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    SCHEME.eq_ignore_ascii_case(scheme).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_follows_the_scheme_and_nothing_is_trimmed() {
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
            assert_eq!(token(value.as_bytes()), expected.map(str::as_bytes), "{value:?}");
        }
    }
}
