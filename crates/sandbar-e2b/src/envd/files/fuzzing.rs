//! Entry points of the fuzzer to the parsers of `/files`. Each accepts any bytes and panics if an
//! invariant does not hold.

use http::{Method, Uri};

use super::{
    disposition::Parameters,
    encoding::{accepted, sent},
    multipart::{Multipart, PartHead, Piece},
    range::{ByteRange, requested_range},
};
use crate::auth::{self, FilesQuery};

/// Parses a form with boundary `b` in chunks of the size in the first byte. The result must not
/// depend on the chunk size.
pub fn upload_form(bytes: &[u8]) {
    let Some((size, form)) = bytes.split_first() else {
        return;
    };
    let in_pieces = parts(form, usize::from(*size).max(1));
    let at_once = parts(form, form.len().max(1));
    assert_eq!(in_pieces, at_once);
}

/// A complete part of a form.
type Part = (PartHead, Vec<u8>);

/// Returns the parts of a form, and whether its end was parsed; `None` if it is malformed.
fn parts(form: &[u8], size: usize) -> Option<(Vec<Part>, bool)> {
    let mut multipart = Multipart::new(b"multipart/form-data; boundary=b").ok()?;
    let mut parts: Vec<Part> = Vec::new();
    for piece in form.chunks(size) {
        multipart.push(piece);
        while let Some(piece) = multipart.next().ok()? {
            match (piece, parts.last_mut()) {
                (Piece::Part(head), _) => parts.push((head, Vec::new())),
                (Piece::Data(data), Some((_, content))) => content.extend_from_slice(&data),
                (Piece::End, Some(_)) => {}
                (piece, None) => panic!("{piece:?} before the first part"),
            }
        }
    }
    Some((parts, multipart.is_over()))
}

/// Parses a file size and, after a space, a range. The result must lie within the file.
pub fn content_range(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some((size, range)) = text.split_once(' ') else {
        return;
    };
    let Ok(size) = size.parse::<u64>() else {
        return;
    };
    if let ByteRange::Part { start, length } = requested_range(Some(range), size) {
        assert!(
            length > 0 && start.checked_add(length).is_some_and(|end| end <= size),
            "{start} {length} of {size}"
        );
    }
}

/// Parses the URL of a file. No input may be a valid signature for an unknown token.
pub fn file_address(bytes: &[u8]) {
    let Ok(uri) = Uri::try_from(bytes) else {
        return;
    };
    let Ok(query) = FilesQuery::of(&uri) else {
        return;
    };
    for method in [Method::GET, Method::POST] {
        assert!(
            auth::check(&query, &method, "a token that is not in the corpus").is_err(),
            "{uri}"
        );
    }
}

/// Parses content headers.
pub fn content_headers(bytes: &[u8]) {
    if let Some(parameters) = Parameters::read(bytes) {
        let _ = (parameters.get("boundary"), parameters.get("filename"));
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = (accepted(Some(&text)), sent(Some(&text)));
}
