//! The first line of HTTP.

use super::{MOST_OPENING, Opening};

/// Methods that servers know. They make HTTP of a line by themselves, since its oldest version says nothing else.
const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PRI"];

/// Whether this begins a request: a known method, or any word in a line that speaks of a version of HTTP. Empty lines and
/// blanks before it, and small letters, are what servers forgive.
pub(super) fn read(bytes: &[u8]) -> Opening {
    let undecided = if bytes.len() >= MOST_OPENING { Opening::Http } else { Opening::Unfinished };
    let line = bytes.trim_ascii_start();
    let word = line.iter().take_while(|byte| is_token(**byte)).count();
    match line.get(word) {
        None => undecided,
        Some(_) if word == 0 => Opening::Other,
        Some(b' ' | b'\t') if METHODS.iter().any(|method| line[..word].eq_ignore_ascii_case(method.as_bytes())) => {
            Opening::Http
        }
        // Other protocols have such lines too. No server takes one with a control character in it for a request.
        Some(_) => match line.iter().position(|byte| byte.is_ascii_control() && *byte != b'\t') {
            None => undecided,
            Some(end) if speaks_of_http(&line[..end]) => Opening::Http,
            Some(_) => Opening::Other,
        },
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn speaks_of_http(line: &[u8]) -> bool {
    line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"))
}
