//! Output: data on stdout, messages on stderr, colour only on a terminal.

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
    io::{self, IsTerminal, Write},
};

use sandbar_core::is_unprintable;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use unicode_width::UnicodeWidthStr;

use crate::{
    env_vars,
    failure::{Failure, Outcome},
};

/// Escape sequences, empty without colour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) error: &'static str,
    pub(crate) good: &'static str,
    pub(crate) bad: &'static str,
    pub(crate) bold: &'static str,
    pub(crate) reset: &'static str,
}

impl Style {
    const PLAIN: Self = Self {
        error: "",
        good: "",
        bad: "",
        bold: "",
        reset: "",
    };
    const COLOURED: Self = Self {
        error: "\x1b[1;31m",
        good: "\x1b[32m",
        bad: "\x1b[33m",
        bold: "\x1b[1m",
        reset: "\x1b[0m",
    };

    fn of(terminal: bool) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os(env_vars::TERM).is_some_and(|term| term == "dumb");
        if terminal && !refused {
            Self::COLOURED
        } else {
            Self::PLAIN
        }
    }
}

pub(crate) fn stderr_style() -> Style {
    Style::of(io::stderr().is_terminal())
}

pub(crate) fn stdout_style() -> Style {
    Style::of(io::stdout().is_terminal())
}

/// Writes one line of data to stdout.
pub(crate) fn line(text: impl Display) -> Outcome<()> {
    writeln!(io::stdout().lock(), "{text}").map_err(Failure::writing)
}

/// Writes one line to stderr. Errors of stderr are ignored.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes a prompt to stderr, without a line break.
pub(crate) fn prompt(text: impl Display) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// Writes bytes unchanged and flushes them.
pub(crate) async fn pass_on(
    target: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
) -> io::Result<()> {
    target.write_all(bytes).await?;
    target.flush().await
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Outcome<()> {
    let mut stdout = io::stdout().lock();
    let text =
        serde_json::to_string_pretty(value).map_err(|error| Failure::writing(error.into()))?;
    writeln!(stdout, "{}", escaped_json(&text)).map_err(Failure::writing)
}

/// Writes a value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Outcome<()> {
    let mut stdout = io::stdout().lock();
    let text = serde_json::to_string(value).map_err(|error| Failure::writing(error.into()))?;
    writeln!(stdout, "{}", escaped_json(&text)).map_err(Failure::writing)
}

/// Escapes what JSON leaves as it is and a terminal acts on. Such characters are inside strings
/// only, where the escape means the same.
fn escaped_json(text: &str) -> Cow<'_, str> {
    let acts = |character: char| character != '\n' && is_unprintable(character);
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            // All of them are in the basic plane.
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Writes rows under upper-case headings, columns aligned, the way `docker ps` and `kubectl get`
/// do.
pub(crate) fn table<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Outcome<()> {
    const GAP: usize = 3;
    let rows: Vec<_> = std::iter::once(headings.map(str::to_owned))
        .chain(rows)
        .collect();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].width())
            .max()
            .unwrap_or(0)
    });
    let mut stdout = io::stdout().lock();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width() + GAP));
        }
        writeln!(stdout, "{}", line.trim_end()).map_err(Failure::writing)?;
    }
    Ok(())
}

/// Escapes control characters, so that the text cannot move the cursor or start a new line.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_unprintable(character) || character == '\\' {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Quotes a word for a shell, if necessary.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bytes_and_invalid_utf8_are_escaped() {
        assert_eq!(printable("größe.txt".as_bytes()), "größe.txt");
        assert_eq!(printable("\u{9b}\u{202e}".as_bytes()), "\\u{9b}\\u{202e}");
        assert_eq!(
            printable(b"a\nb\x1b[31m\xff\\"),
            "a\\nb\\u{1b}[31m\\xff\\\\"
        );
    }

    #[test]
    fn terminal_controls_in_json_are_escaped() {
        let value = ["\u{9b}31m \u{202e}x\u{7f}", "größe\n"];
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = escaped_json(&text);
        assert!(escaped.contains("\\u009b31m \\u202ex\\u007f"), "{escaped}");
        assert_eq!(
            serde_json::from_str::<[String; 2]>(&escaped).unwrap(),
            value
        );
    }

    #[test]
    fn words_are_quoted_for_a_shell_if_necessary() {
        assert_eq!(shell_word("./bin/sandbar"), "./bin/sandbar");
        assert_eq!(shell_word("/var/my data"), "'/var/my data'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
