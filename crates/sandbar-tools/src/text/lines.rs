//! Lines of text: numbered, truncated when too long, collected up to a limit.

use std::{borrow::Cow, fmt::Write as _};

use super::CONTENT_LIMIT;

/// Characters shown of a line.
const LINE_LIMIT: usize = 2000;

/// Formats a line: without its end, and truncated with a marker when it is very long.
pub(crate) fn clip(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    match text.char_indices().nth(LINE_LIMIT) {
        None => text.into_owned(),
        Some((cut, _)) => {
            let rest = text[cut..].chars().count();
            format!("{} [… {rest} more characters]", &text[..cut])
        }
    }
}

/// Formats a line with its number, counted from 1.
pub(crate) fn numbered(number: usize, line: &[u8]) -> String {
    format!("{number:>6}\t{}\n", clip(line))
}

/// Text that accepts whole pieces up to a limit.
#[derive(Debug, Default)]
pub(crate) struct BoundedText {
    text: String,
}

impl BoundedText {
    /// Adds a piece; `false` when it does not fit.
    #[must_use]
    pub(crate) fn push(&mut self, piece: &str) -> bool {
        let fits = self.text.len() + piece.len() <= CONTENT_LIMIT;
        if fits {
            self.text.push_str(piece);
        }
        fits
    }

    /// Returns the bytes left.
    pub(crate) fn room(&self) -> usize {
        CONTENT_LIMIT - self.text.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the text with a closing remark in brackets.
    pub(crate) fn with_note(mut self, note: Option<Cow<'_, str>>) -> String {
        if let Some(note) = note {
            // Writing to a string cannot fail.
            let _ = write!(self.text, "[{note}]");
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_between_characters_and_says_so() {
        assert_eq!(clip(b"short\r\n"), "short");
        let long = "é".repeat(LINE_LIMIT + 7);
        assert_eq!(
            clip(long.as_bytes()),
            format!("{} [… 7 more characters]", "é".repeat(LINE_LIMIT))
        );
        assert_eq!(
            clip("é".repeat(LINE_LIMIT).as_bytes()),
            "é".repeat(LINE_LIMIT)
        );
    }
}
