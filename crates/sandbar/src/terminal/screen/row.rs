//! One row of a screen.

use unicode_width::UnicodeWidthChar;

use crate::terminal::output;

/// Style of a part of a row. Colour alone never carries meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Bold,
    Dim,
    Selected,
    Good,
    Bad,
}

impl Look {
    fn code(self) -> &'static str {
        let style = output::stdout_style();
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Selected => "\x1b[7m",
            Self::Good => style.good,
            Self::Bad => style.bad,
        }
    }
}

/// Row of text in several styles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row(Vec<(Look, String)>);

impl Row {
    pub(crate) fn of(look: Look, text: impl Into<String>) -> Self {
        Self::default().and(look, text)
    }

    pub(crate) fn and(mut self, look: Look, text: impl Into<String>) -> Self {
        self.0.push((look, text.into()));
        self
    }

    /// Renders the row, cut at `width` columns. A selected part extends to the edge.
    pub(crate) fn render(&self, width: usize) -> String {
        let (mut text, mut used) = (String::new(), 0);
        for (look, part) in &self.0 {
            let fitting = fit(part, width - used);
            used += columns(fitting);
            let code = look.code();
            text.push_str(code);
            text.push_str(fitting);
            if *look == Look::Selected {
                text.extend(std::iter::repeat_n(' ', width - used));
                used = width;
            }
            if !code.is_empty() {
                text.push_str("\x1b[0m");
            }
        }
        text
    }
}

/// Returns the prefix of a text that fits into `width` columns.
pub(crate) fn fit(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += character.width().unwrap_or(0);
        if used > width {
            return &text[..at];
        }
    }
    text
}

fn columns(text: &str) -> usize {
    text.chars()
        .map(|character| character.width().unwrap_or(0))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_cut_between_characters_of_any_width() {
        assert_eq!(
            Row::of(Look::Plain, "abc")
                .and(Look::Plain, "def")
                .render(4),
            "abcd"
        );
        assert_eq!(Row::of(Look::Plain, "日本語").render(5), "日本");
        assert_eq!(
            Row::of(Look::Selected, "ab").render(4),
            "\x1b[7mab  \x1b[0m"
        );
        assert_eq!(Row::of(Look::Bold, "abc").render(0), "\x1b[1m\x1b[0m");
    }
}
