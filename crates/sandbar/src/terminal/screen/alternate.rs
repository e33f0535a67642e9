//! The alternate screen of a terminal.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use sandbar_core::{Error, Result, TerminalSize};

use super::Row;
use crate::terminal::{ChangedMode, Terminal};

/// Alternate screen, no cursor, no wrapping at the right edge.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
/// Restores all of it, and what an interrupted frame may have left.
const LEAVE: &str = "\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Synchronized update: terminals that support it show the text in between at once.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// The alternate screen. Dropping it restores the terminal, also during a panic.
#[derive(Debug)]
pub(crate) struct Screen<'a, W: Write> {
    terminal: &'a Terminal,
    output: W,
    /// Rows on the screen.
    shown: Vec<String>,
    /// `None` while suspended.
    mode: Option<ChangedMode<'a>>,
}

impl<'a, W: Write> Screen<'a, W> {
    pub(crate) fn enter(terminal: &'a Terminal, output: W) -> Result<Self> {
        let mut screen = Self {
            terminal,
            output,
            shown: Vec::new(),
            mode: None,
        };
        screen.resume()?;
        Ok(screen)
    }

    /// Enters the alternate screen again.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.mode = Some(self.terminal.raw()?);
        self.write(ENTER)
            .map_err(|error| Error::io("could not use the terminal", error))?;
        self.forget();
        Ok(())
    }

    /// Restores the terminal until `resume`.
    pub(crate) fn suspend(&mut self) {
        if self.mode.is_some() {
            // Fails only if the terminal itself is gone.
            let _ = self.write(LEAVE);
        }
        self.mode = None;
    }

    /// Makes the next frame redraw every row: another program may have written to the screen.
    pub(crate) fn forget(&mut self) {
        self.shown.clear();
    }

    /// Draws these rows from the top; unchanged rows are skipped.
    pub(crate) fn draw(&mut self, rows: &[Row], size: TerminalSize) -> io::Result<()> {
        let mut lines: Vec<String> = rows
            .iter()
            .take(size.rows.into())
            .map(|row| row.render(size.columns.into()))
            .collect();
        lines.resize(size.rows.into(), String::new());
        let whole = self.shown.len() != lines.len();
        let mut text = String::from(BEGIN);
        if whole {
            text.push_str("\x1b[0m\x1b[2J");
        }
        let before = text.len();
        for (number, line) in lines.iter().enumerate() {
            let same = if whole {
                line.is_empty()
            } else {
                self.shown[number] == *line
            };
            if !same {
                // Writing to a string cannot fail.
                let _ = write!(text, "\x1b[{};1H{line}\x1b[0m\x1b[K", number + 1);
            }
        }
        if text.len() > before || whole {
            text.push_str(END);
            self.write(&text)?;
        }
        self.shown = lines;
        Ok(())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.output.write_all(text.as_bytes())?;
        self.output.flush()
    }
}

impl<W: Write> Drop for Screen<'_, W> {
    fn drop(&mut self) {
        self.suspend();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use sandbar_testing::Pty;

    use super::{super::Look, *};

    const SIZE: TerminalSize = TerminalSize {
        rows: 3,
        columns: 10,
    };

    fn rows(texts: &[&str]) -> Vec<Row> {
        texts
            .iter()
            .map(|text| Row::of(Look::Plain, *text))
            .collect()
    }

    #[test]
    fn only_changed_rows_are_drawn_unless_the_size_changed() {
        let pty = Pty::open(3, 10);
        let terminal = Terminal::at(pty.device()).unwrap();
        let mut output = Vec::new();
        let mut screen = Screen::enter(&terminal, &mut output).unwrap();
        screen.draw(&rows(&["one", "two"]), SIZE).unwrap();
        screen.draw(&rows(&["one", "two"]), SIZE).unwrap();
        screen.draw(&rows(&["one", "2"]), SIZE).unwrap();
        screen
            .draw(
                &rows(&["one", "2"]),
                TerminalSize {
                    rows: 4,
                    columns: 10,
                },
            )
            .unwrap();
        drop(screen);
        let text = String::from_utf8(output).unwrap();
        assert_eq!(text.matches("one").count(), 2, "{text:?}");
        assert_eq!(text.matches("two").count(), 1, "{text:?}");
        assert_eq!(text.matches("\x1b[2;1H2").count(), 2, "{text:?}");
        assert!(text.starts_with(ENTER) && text.ends_with(LEAVE), "{text:?}");
        assert_eq!(
            text.matches(BEGIN).count(),
            3,
            "nothing new is not drawn: {text:?}"
        );
    }

    #[test]
    fn terminal_is_restored_when_a_panic_unwinds() {
        let pty = Pty::open(3, 10);
        let before = pty.modes();
        let terminal = Terminal::at(pty.device()).unwrap();
        let mut output = Vec::new();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _screen = Screen::enter(&terminal, &mut output).unwrap();
            assert_ne!(pty.modes(), before);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(pty.modes(), before);
        assert!(output.ends_with(LEAVE.as_bytes()));
    }
}
