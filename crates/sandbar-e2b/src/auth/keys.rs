//! API keys: tokens of the host in the format of E2B's SDKs.

use std::{fmt::Write as _, sync::Arc};

use sandbar_core::{Error, ErrorCode, Grant, Need, Result};

use super::CallOwner;

/// Prefix of every E2B API key; SDKs up to 2.4x reject other keys.
const PREFIX: &str = "e2b_";

/// Looks up the tokens of the host.
pub trait Keyring: Send + Sync + std::fmt::Debug {
    /// Returns whether the host runs without tokens, so that every caller is an admin.
    fn is_open(&self) -> bool;

    /// Returns the caller a token belongs to; `None` if it is not a token of this host.
    fn caller(&self, token: &[u8]) -> Result<Option<ApiCaller>>;
}

/// A caller authenticated by an API key.
#[derive(Clone, Debug)]
pub struct ApiCaller {
    /// Name in the audit log.
    pub name: Arc<str>,
    pub grant: Grant,
}

impl ApiCaller {
    /// Returns the party whose calls are counted.
    pub(crate) fn owner(&self) -> CallOwner<'_> {
        CallOwner::Token {
            name: &self.name,
            grant: &self.grant,
        }
    }

    /// Fails with `PermissionDenied` if the scopes of the key are not sufficient.
    pub(crate) fn require(&self, need: Need<'_>) -> Result<()> {
        if self.grant.may(need) {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("API key lacks a scope: this call requires {need}"),
        )
        .with_hint(
            "use the key of a token with that scope; an admin creates one with `sandbar token new`",
        ))
    }
}

/// Encodes a token of the host as an API key: hexadecimal digits after the prefix, which every
/// version of the SDKs accepts.
pub fn api_key(token: &str) -> String {
    token.bytes().fold(PREFIX.to_owned(), |mut key, byte| {
        let _ = write!(key, "{byte:02x}");
        key
    })
}

/// Decodes the token in an API key. A key in another format is returned unchanged, so that a plain
/// token works as a key.
pub(crate) fn token_in_key(key: &[u8]) -> Vec<u8> {
    let digits = key
        .strip_prefix(PREFIX.as_bytes())
        .filter(|digits| digits.len() % 2 == 0);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits
        .and_then(|digits| digits.chunks(2).map(byte).collect())
        .unwrap_or_else(|| key.to_vec())
}

/// Authenticates an API key.
pub(super) fn identify(keyring: &dyn Keyring, key: Option<&[u8]>) -> Result<ApiCaller> {
    if keyring.is_open() {
        return Ok(ApiCaller {
            name: "anonymous".into(),
            grant: Grant::admin(),
        });
    }
    let refuse = |message: &str| {
        Error::new(ErrorCode::Unauthenticated, message)
            .with_hint("set E2B_API_KEY to what `sandbar env` prints; it is sent as `X-API-KEY`")
    };
    let key = key.ok_or_else(|| refuse("API key is missing"))?;
    keyring
        .caller(&token_in_key(key))?
        .ok_or_else(|| refuse("API key not recognised by this host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_recovered_from_its_key() {
        let key = api_key("sb_Token-1");
        assert!(
            key.strip_prefix("e2b_")
                .unwrap()
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit()),
            "{key}"
        );
        assert_eq!(token_in_key(key.as_bytes()), b"sb_Token-1");
    }

    #[test]
    fn key_in_another_format_is_returned_unchanged() {
        for other in ["sb_plain", "e2b_abc", "e2b_zz", ""] {
            assert_eq!(token_in_key(other.as_bytes()), other.as_bytes());
        }
    }
}
