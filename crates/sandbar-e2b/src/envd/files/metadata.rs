//! What is kept with a file: headers of its upload become attributes of it.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, StatusCode};

use crate::{answer::ControlError, envd::filesystem::METADATA};

const HEADER: &str = "x-metadata-";

/// The kernel's longest name of an attribute, without what is put before it.
const LONGEST_KEY: usize = 255 - METADATA.len();

/// What some file systems have room for.
const MOST: usize = 4096;

/// What the headers of an upload say, by key. Of a key that is there twice the first one counts.
pub(super) fn metadata(headers: &HeaderMap) -> Result<BTreeMap<String, String>, ControlError> {
    let refuse = |why: String| ControlError::new(StatusCode::BAD_REQUEST, format!("invalid metadata: {why}"));
    let (mut found, mut total) = (BTreeMap::new(), 0);
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix(HEADER) else { continue };
        let value = headers.get(name).map(HeaderValue::as_bytes).unwrap_or_default();
        if key.is_empty() {
            return Err(refuse("metadata key must not be empty".into()));
        }
        if key.len() > LONGEST_KEY {
            return Err(refuse(format!("metadata key {key:?} exceeds {LONGEST_KEY} bytes")));
        }
        if let Some(offset) = value.iter().position(|byte| !(0x20..=0x7e).contains(byte)) {
            let byte = value[offset];
            let what = format!("metadata value for key {key:?} contains non-printable-ASCII byte {byte:#04x}");
            return Err(refuse(format!("{what} at offset {offset}")));
        }
        total += METADATA.len() + key.len() + value.len();
        found.insert(key.to_owned(), String::from_utf8_lossy(value).into_owned());
    }
    if total > MOST {
        return Err(refuse(format!("total metadata size {total} exceeds {MOST} bytes")));
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
    fn headers_become_metadata_and_the_first_of_a_key_counts() {
        let given = headers(&[("X-Metadata-Author", b"me"), ("x-metadata-author", b"you"), ("x-other", b"x")]);
        assert_eq!(metadata(&given).unwrap(), BTreeMap::from([("author".to_owned(), "me".to_owned())]));
    }

    #[test]
    fn what_no_file_can_keep_is_refused() {
        let long = format!("x-metadata-{}", "k".repeat(LONGEST_KEY + 1));
        for given in [
            headers(&[("x-metadata-", b"v")]),
            headers(&[("x-metadata-k", b"\xc3\xa4")]),
            headers(&[("x-metadata-k", &[b'v'; MOST])]),
            headers(&[(&long, b"v")]),
        ] {
            assert!(metadata(&given).is_err(), "{given:?}");
        }
    }
}
