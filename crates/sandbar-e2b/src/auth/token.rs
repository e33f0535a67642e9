//! Access tokens of sandboxes.

/// Derives the envd access token of a sandbox from its traffic token. It grants this sandbox only,
/// and does not reveal the traffic token.
pub(crate) fn access_token(traffic_token: &str) -> String {
    blake3::Hash::from(blake3::derive_key(
        "sandbar 2026-11 envd access token",
        traffic_token.as_bytes(),
    ))
    .to_hex()
    .to_string()
}

/// Compares a presented secret with the expected one in constant time: hashes are compared, and
/// `blake3::Hash` does not stop at the first difference.
pub(crate) fn is_equal(presented: &[u8], expected: &str) -> bool {
    blake3::hash(presented) == blake3::hash(expected.as_bytes())
}
