//! Idempotent creation: a retried request creates no second sandbox.
//!
//! The sandbox id is derived from the `Idempotency-Key`, so no table of keys is needed: a second
//! request with the same key finds the sandbox, even after a restart of the host.

use axum::http::{HeaderMap, HeaderName};
use sandbar_core::{Result, SessionId};

use crate::{
    auth::ApiCaller,
    rest::{ApiResult, bad_request},
};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Limit that other APIs with this header use, too.
const MAX_KEY_BYTES: usize = 255;

/// Alphabet of random session ids.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Returns the sandbox id for the `Idempotency-Key` of a request, if it has one. Keys of different
/// callers never collide.
pub(super) fn id_by_key(headers: &HeaderMap, caller: &ApiCaller) -> ApiResult<Option<SessionId>> {
    let Some(key) = headers.get(KEY) else {
        return Ok(None);
    };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(bad_request(format!(
            "`Idempotency-Key` has {} bytes; send 1 to {MAX_KEY_BYTES}",
            key.len()
        )));
    }
    Ok(Some(id_of(&caller.name, key.as_bytes())?))
}

fn id_of(caller: &str, key: &[u8]) -> Result<SessionId> {
    let mut hasher =
        blake3::Hasher::new_derive_key("sandbar 2026-11 sandbox of an idempotency key");
    hasher
        .update(&(caller.len() as u64).to_le_bytes())
        .update(caller.as_bytes())
        .update(key);
    let letters = hasher.finalize().as_bytes()[..20]
        .iter()
        .map(|byte| ALPHABET[usize::from(byte & 31)] as char)
        .collect::<String>();
    SessionId::new(format!("i{letters}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_key_of_the_same_caller_is_the_same_sandbox() {
        let id = |caller: &str, key: &str| id_of(caller, key.as_bytes()).unwrap();
        assert_eq!(id("a", "k"), id("a", "k"));
        assert_ne!(id("a", "k"), id("b", "k"));
        assert_ne!(id("a", "bk"), id("ab", "k"));
        assert!(
            id("a", "k")
                .as_str()
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        );
    }
}
