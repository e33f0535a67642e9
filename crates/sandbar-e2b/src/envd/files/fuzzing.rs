//! Ways into the readers of `/files` for the fuzzer. Each takes any bytes, and panics where a promise is broken.

use http::{Method, Uri};

use super::{
    disposition::Parameters,
    encoding::{accepted, sent},
    multipart::{Multipart, PartHead, Piece},
    query::FilesQuery,
    range::{Wanted, wanted},
    signature,
};

/// A form whose boundary is `b`, in pieces as large as the first byte says. What is in it does not depend on how it arrives.
pub fn upload_form(bytes: &[u8]) {
    let Some((size, form)) = bytes.split_first() else { return };
    let in_pieces = parts(form, usize::from(*size).max(1));
    let at_once = parts(form, form.len().max(1));
    assert_eq!(in_pieces, at_once);
}

/// A part of a form, whole.
type Part = (PartHead, Vec<u8>);

/// The parts of a form, and whether its end was seen; `None` when it is none.
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

/// A size, and a range of a file of that size behind the first space. A part is always in the file.
pub fn content_range(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some((size, range)) = text.split_once(' ') else { return };
    let Ok(size) = size.parse::<u64>() else { return };
    if let Wanted::Part { start, length } = wanted(Some(range), size) {
        assert!(length > 0 && start.checked_add(length).is_some_and(|end| end <= size), "{start} {length} of {size}");
    }
}

/// The address of a file. Nobody who does not know the token has signed it.
pub fn file_address(bytes: &[u8]) {
    let Ok(uri) = Uri::try_from(bytes) else { return };
    let Ok(query) = FilesQuery::of(&uri) else { return };
    for method in [Method::GET, Method::POST] {
        assert!(signature::check(&query, &method, "a token nobody has seen").is_err(), "{uri}");
    }
}

/// Headers that say what a content is, and how it is to be sent.
pub fn content_headers(bytes: &[u8]) {
    if let Some(parameters) = Parameters::read(bytes) {
        let _ = (parameters.get("boundary"), parameters.get("filename"));
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = (accepted(Some(&text)), sent(Some(&text)));
}
