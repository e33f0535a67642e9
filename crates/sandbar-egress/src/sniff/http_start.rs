//! Recognises the request line of HTTP.

use super::{MAX_OPENING_BYTES, Opening};

/// Methods that suffice to classify a line as HTTP: a request line of HTTP/0.9 has no version.
const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PRI",
];

/// Classifies bytes as HTTP if they start with a known method, or with any token in a line that
/// contains `HTTP/`. Leading white space and lower case are accepted, as lenient servers do.
pub(super) fn read(bytes: &[u8]) -> Opening {
    let undecided = if bytes.len() >= MAX_OPENING_BYTES {
        Opening::Http
    } else {
        Opening::Unfinished
    };
    let line = bytes.trim_ascii_start();
    let word = line.iter().take_while(|byte| is_token(**byte)).count();
    match line.get(word) {
        None => undecided,
        Some(_) if word == 0 => Opening::Other,
        Some(b' ' | b'\t')
            if METHODS
                .iter()
                .any(|method| line[..word].eq_ignore_ascii_case(method.as_bytes())) =>
        {
            Opening::Http
        }
        // Other protocols have such lines too. No server accepts a request line with a control
        // character in it.
        Some(_) => match line
            .iter()
            .position(|byte| byte.is_ascii_control() && *byte != b'\t')
        {
            None => undecided,
            Some(end) if mentions_http(&line[..end]) => Opening::Http,
            Some(_) => Opening::Other,
        },
    }
}

/// Reports whether bytes may be a request line of HTTP that ended early: they mention HTTP, or they
/// are a part of a known method. The first word of another protocol is neither.
pub(super) fn may_be_request(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start();
    let word = line.iter().take_while(|byte| is_token(**byte)).count();
    let is_method = |method: &&str| {
        method
            .as_bytes()
            .get(..word)
            .is_some_and(|part| part.eq_ignore_ascii_case(&line[..word]))
    };
    let is_cut_method = word > 0 && word == line.len() && METHODS.iter().any(is_method);
    is_cut_method || matches!(read(bytes), Opening::Http) || mentions_http(line)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn mentions_http(line: &[u8]) -> bool {
    line.windows(5)
        .any(|part| part.eq_ignore_ascii_case(b"HTTP/"))
}
