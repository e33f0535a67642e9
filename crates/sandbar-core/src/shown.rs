//! Text that a session chose, made safe to show on a terminal.

use std::path::Path;

/// Reports whether a character may move a cursor, change a terminal, or reorder the text around it:
/// control characters of both sets, line separators, and marks of bidirectional text.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Returns the text with its unprintable characters escaped, as in `\n` and `\u{1b}`.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unprintable(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns a path as [`shown`] text on one line. Bytes that are not UTF-8 are replaced.
pub fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidi_characters_are_escaped() {
        for (text, expected) in [
            ("größe 日本 \\ 🦀", "größe 日本 \\ 🦀"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}]0;x\u{7}\u{7f}", "\\u{1b}]0;x\\u{7}\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            (
                "\u{202e}txt.\u{2066}\u{2028}",
                "\\u{202e}txt.\\u{2066}\\u{2028}",
            ),
        ] {
            assert_eq!(shown(text), expected);
            assert_eq!(shown_path(Path::new(text)), expected);
        }
    }
}
