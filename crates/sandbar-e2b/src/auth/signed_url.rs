//! Signed URLs: access to one file for one operation, for clients without a token.

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use http::Method;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::{FilesQuery, token::is_equal};

/// Computes the signature of a request with the access token of its sandbox, as the SDKs do.
fn signature(query: &FilesQuery, method: &Method, token: &str) -> String {
    let operation = if method == Method::POST {
        "write"
    } else {
        "read"
    };
    let path = query.path.as_deref().unwrap_or_default();
    let user = query.username.as_deref().unwrap_or_default();
    let expiration = query
        .signature_expiration
        .map(|end| format!(":{end}"))
        .unwrap_or_default();
    let signed = format!("{path}:{operation}:{user}:{token}{expiration}");
    format!(
        "v1_{}",
        BASE64_STANDARD_NO_PAD.encode(Sha256::digest(signed))
    )
}

/// Returns whether a request was signed with this token. Does not check the expiration.
pub(super) fn is_signed(query: &FilesQuery, method: &Method, token: &str) -> bool {
    query
        .signature
        .as_ref()
        .is_some_and(|presented| is_equal(presented.as_bytes(), &signature(query, method, token)))
}

/// Checks signature and expiration. The error is the message of the response, in E2B's words.
pub(crate) fn check(query: &FilesQuery, method: &Method, token: &str) -> Result<(), &'static str> {
    if query.signature.is_none() {
        return Err("missing signature query parameter");
    }
    if !is_signed(query, method, token) {
        return Err("invalid signature");
    }
    match query.signature_expiration {
        Some(end) if end < Timestamp::now().as_second() => Err("signature is already expired"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(path: &str, user: Option<&str>, expiration: Option<i64>) -> FilesQuery {
        FilesQuery {
            path: Some(path.into()),
            username: user.map(Into::into),
            signature: None,
            signature_expiration: expiration,
        }
    }

    #[test]
    fn signature_equals_what_sdks_compute() {
        // By hand: printf 'a.txt:read:user:tok' | openssl dgst -sha256 -binary | base64
        let signed = query("a.txt", Some("user"), None);
        assert_eq!(
            signature(&signed, &Method::GET, "tok"),
            "v1_wPjHOh/p+K3FbqiyGd5vwPNc/g4IPd8sigMxb1gqu9I"
        );
    }

    #[test]
    fn signature_is_valid_for_one_request_until_it_expires() {
        let now = Timestamp::now().as_second();
        let sign = |mut query: FilesQuery, method: &Method| {
            query.signature = Some(signature(&query, method, "tok"));
            query
        };
        for signed in [
            query("a", None, None),
            query("a", Some("root"), Some(now + 60)),
            query("", None, None),
        ] {
            let signed = sign(signed, &Method::GET);
            assert_eq!(check(&signed, &Method::GET, "tok"), Ok(()));
            assert_eq!(
                check(&signed, &Method::POST, "tok"),
                Err("invalid signature")
            );
            assert_eq!(
                check(&signed, &Method::GET, "other"),
                Err("invalid signature")
            );
            let elsewhere = FilesQuery {
                path: Some("b".into()),
                ..signed.clone()
            };
            assert_eq!(
                check(&elsewhere, &Method::GET, "tok"),
                Err("invalid signature")
            );
            let longer = FilesQuery {
                signature_expiration: Some(now + 600),
                ..signed
            };
            assert_eq!(
                check(&longer, &Method::GET, "tok"),
                Err("invalid signature")
            );
        }
        let old = sign(query("a", None, Some(now - 1)), &Method::GET);
        assert_eq!(
            check(&old, &Method::GET, "tok"),
            Err("signature is already expired")
        );
        assert_eq!(
            check(&query("a", None, None), &Method::GET, "tok"),
            Err("missing signature query parameter")
        );
    }
}
