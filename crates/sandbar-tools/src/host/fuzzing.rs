//! Ways to what these tools make of text for the fuzzer.

pub use super::search::ignore_rules;
use super::{edit_file, nearest::nearest};

/// A file, the text to find in it and the text that takes its place, with a zero byte between them.
pub fn edit(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let (Some(old), Some(new), Some(file)) = (parts.next(), parts.next(), parts.next()) else { return };
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    edit_file::try_edit(file, &old, &new);
    let _ = nearest(file, &old);
}
