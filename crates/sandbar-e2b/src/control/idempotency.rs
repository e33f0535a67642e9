//! A request that is sent again makes no second sandbox.
//!
//! The name of the sandbox is made of the key, so that nothing has to be remembered: whoever comes second with the same key
//! finds the sandbox there, also after this host was started anew.

use axum::http::{HeaderMap, HeaderName};
use sandbar_core::{Result, SessionId};

use super::{Answer, fields::bad_request};
use crate::keys::Holder;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// As long as anybody's.
const LONGEST: usize = 255;

/// The letters random ids are made of.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The name a request with an `Idempotency-Key` gives its sandbox.
pub(super) fn id_by_key(headers: &HeaderMap, holder: &Holder) -> Answer<Option<SessionId>> {
    let Some(key) = headers.get(KEY) else { return Ok(None) };
    if key.is_empty() || key.len() > LONGEST {
        return Err(bad_request(format!("`Idempotency-Key` has {} bytes; send 1 to {LONGEST}", key.len())));
    }
    Ok(Some(id_of(&holder.name, key.as_bytes())?))
}

fn id_of(holder: &str, key: &[u8]) -> Result<SessionId> {
    let mut hasher = blake3::Hasher::new_derive_key("sandbar 2026-11 sandbox of an idempotency key");
    hasher.update(&(holder.len() as u64).to_le_bytes()).update(holder.as_bytes()).update(key);
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
    fn the_same_key_of_the_same_holder_is_the_same_sandbox() {
        let id = |holder: &str, key: &str| id_of(holder, key.as_bytes()).unwrap();
        assert_eq!(id("a", "k"), id("a", "k"));
        assert_ne!(id("a", "k"), id("b", "k"));
        assert_ne!(id("a", "bk"), id("ab", "k"));
        assert!(id("a", "k").as_str().bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    }
}
