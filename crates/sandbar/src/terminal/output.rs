//! Output: data on stdout, messages on stderr, colour only on a terminal.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
};

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
    serde_json::to_writer_pretty(&mut stdout, value)
        .map_err(|error| Failure::writing(error.into()))?;
    stdout.write_all(b"\n").map_err(Failure::writing)
}

/// Writes a value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Outcome<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, value).map_err(|error| Failure::writing(error.into()))?;
    stdout.write_all(b"\n").map_err(Failure::writing)
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
            if character.is_control() || character == '\\' {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = std::fmt::Write::write_fmt(&mut text, format_args!("\\x{byte:02x}"));
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
        assert_eq!(
            printable(b"a\nb\x1b[31m\xff\\"),
            "a\\nb\\u{1b}[31m\\xff\\\\"
        );
    }

    #[test]
    fn words_are_quoted_for_a_shell_if_necessary() {
        assert_eq!(shell_word("./bin/sandbar"), "./bin/sandbar");
        assert_eq!(shell_word("/var/my data"), "'/var/my data'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
