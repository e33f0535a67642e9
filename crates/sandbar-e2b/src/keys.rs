//! API keys, and the tokens that open one sandbox.

use std::{fmt::Write as _, sync::Arc};

use sandbar_core::{Error, ErrorCode, Grant, Need, Result};

/// What every key of E2B begins with. SDKs up to 2.4x take no other.
const PREFIX: &str = "e2b_";

/// Knows the tokens of the host.
pub trait Keyring: Send + Sync + std::fmt::Debug {
    /// Whether everybody may do everything.
    fn is_open(&self) -> bool;

    /// Whose token this is; `None` when it is nobody's.
    fn holder(&self, token: &[u8]) -> Result<Option<Holder>>;
}

/// Whoever shows a token, and what they may do.
#[derive(Clone, Debug)]
pub struct Holder {
    /// What the audit log calls them.
    pub name: Arc<str>,
    pub grant: Grant,
}

impl Holder {
    /// Refuses what the key is too narrow for.
    pub(crate) fn require(&self, need: Need<'_>) -> Result<()> {
        if self.grant.may(need) {
            return Ok(());
        }
        Err(Error::new(ErrorCode::PermissionDenied, format!("this call takes {need}, and the API key has less"))
            .with_hint("use the key of a token with that scope; an admin makes one with `sandbar token new`"))
    }
}

/// A token of the host in the form SDKs take for an API key: every version takes hexadecimal digits after the prefix.
pub fn api_key(token: &str) -> String {
    token.bytes().fold(PREFIX.to_owned(), |mut key, byte| {
        let _ = write!(key, "{byte:02x}");
        key
    })
}

/// The token in a key; what does not look like one of ours is taken as it is.
pub(crate) fn token_in(key: &[u8]) -> Vec<u8> {
    let digits = key.strip_prefix(PREFIX.as_bytes()).filter(|digits| digits.len() % 2 == 0);
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.and_then(|digits| digits.chunks(2).map(pair).collect()).unwrap_or_else(|| key.to_vec())
}

/// Who calls with this key.
pub(crate) fn identify(keyring: &dyn Keyring, key: Option<&[u8]>) -> Result<Holder> {
    if keyring.is_open() {
        return Ok(Holder { name: "anonymous".into(), grant: Grant::admin() });
    }
    let refusal = |message: &str| {
        Error::new(ErrorCode::Unauthenticated, message)
            .with_hint("set E2B_API_KEY to what `sandbar env` prints; it is sent as `X-API-KEY`")
    };
    let key = key.ok_or_else(|| refusal("the call carries no API key"))?;
    keyring.holder(&token_in(key))?.ok_or_else(|| refusal("the API key is none of this host"))
}

/// Opens envd of the sandbox whose traffic token this is, and nothing else.
pub(crate) fn envd_token(traffic_token: &str) -> String {
    blake3::Hash::from(blake3::derive_key("sandbar 2026-11 envd access token", traffic_token.as_bytes()))
        .to_hex()
        .to_string()
}

/// Whether two secrets are the same. It takes the same time wherever they differ.
pub(crate) fn is_same(shown: &[u8], right: &str) -> bool {
    blake3::hash(shown) == blake3::hash(right.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_again_in_its_key() {
        let key = api_key("sb_Token-1");
        assert!(key.strip_prefix("e2b_").unwrap().bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        assert_eq!(token_in(key.as_bytes()), b"sb_Token-1");
    }

    #[test]
    fn what_is_no_key_of_ours_is_taken_as_it_is() {
        for other in ["sb_plain", "e2b_abc", "e2b_zz", ""] {
            assert_eq!(token_in(other.as_bytes()), other.as_bytes());
        }
    }
}
