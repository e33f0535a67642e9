//! Entry points of the fuzzer.

pub use super::search::ignore_rules;
use super::{edit_file, nearest::nearest};

/// Content, text to find and replacement, separated by zero bytes.
pub fn edit(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let (Some(old), Some(new), Some(file)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    edit_file::try_edit(file, &old, &new);
    let _ = nearest(file, &old);
}
