//! Metadata of a file: headers of its upload become extended attributes.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, StatusCode};

use crate::{envd::filesystem::METADATA_PREFIX, rest::ApiError};

const HEADER_PREFIX: &str = "x-metadata-";

/// Limit of the kernel for attribute names, without the prefix.
const MAX_KEY_BYTES: usize = 255 - METADATA_PREFIX.len();

/// Limit of some file systems for all attributes of a file.
const MAX_TOTAL_BYTES: usize = 4096;

/// Returns the metadata in the headers of an upload. The first of several values takes precedence.
pub(super) fn metadata(headers: &HeaderMap) -> Result<BTreeMap<String, String>, ApiError> {
    let refuse =
        |why: String| ApiError::new(StatusCode::BAD_REQUEST, format!("invalid metadata: {why}"));
    let (mut found, mut total) = (BTreeMap::new(), 0);
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix(HEADER_PREFIX) else {
            continue;
        };
        let value = headers
            .get(name)
            .map(HeaderValue::as_bytes)
            .unwrap_or_default();
        if key.is_empty() {
            return Err(refuse("metadata key must not be empty".into()));
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(refuse(format!(
                "metadata key {key:?} exceeds {MAX_KEY_BYTES} bytes"
            )));
        }
        if let Some(offset) = value.iter().position(|byte| !(0x20..=0x7e).contains(byte)) {
            let byte = value[offset];
            let what = format!(
                "metadata value for key {key:?} contains non-printable-ASCII byte {byte:#04x}"
            );
            return Err(refuse(format!("{what} at offset {offset}")));
        }
        total += METADATA_PREFIX.len() + key.len() + value.len();
        found.insert(key.to_owned(), String::from_utf8_lossy(value).into_owned());
    }
    if total > MAX_TOTAL_BYTES {
        return Err(refuse(format!(
            "total metadata size {total} exceeds {MAX_TOTAL_BYTES} bytes"
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn headers_become_metadata_and_first_value_is_used() {
        let given = headers(&[
            ("X-Metadata-Author", b"me"),
            ("x-metadata-author", b"you"),
            ("x-other", b"x"),
        ]);
        assert_eq!(
            metadata(&given).unwrap(),
            BTreeMap::from([("author".to_owned(), "me".to_owned())])
        );
    }

    #[test]
    fn metadata_beyond_the_limits_is_refused() {
        let long = format!("x-metadata-{}", "k".repeat(MAX_KEY_BYTES + 1));
        for given in [
            headers(&[("x-metadata-", b"v")]),
            headers(&[("x-metadata-k", b"\xc3\xa4")]),
            headers(&[("x-metadata-k", &[b'v'; MAX_TOTAL_BYTES])]),
            headers(&[(&long, b"v")]),
        ] {
            assert!(metadata(&given).is_err(), "{given:?}");
        }
    }
}
