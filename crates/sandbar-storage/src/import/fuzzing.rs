//! Entry points of the fuzzer.

use super::source;

/// Detects the contents of an archive.
pub fn archive_contents(bytes: &[u8]) {
    let _ = source::contents(bytes);
}
