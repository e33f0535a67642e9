//! Suggestion for a text that is not in a file: the most similar part of the file.

use std::{collections::HashSet, fmt::Write as _};

use crate::text::numbered;

/// Lines of a file that are compared. Comparing more takes seconds, too long for a suggestion.
const MAX_COMPARED_LINES: usize = 100_000;

/// Characters compared per line.
const MAX_COMPARED_CHARS: usize = 400;

/// Lines shown.
const MAX_SHOWN_LINES: usize = 20;

/// Minimum share of common letter pairs of similar lines.
const ALIKE: f64 = 0.5;

type Pairs = HashSet<(char, char)>;

/// Returns a remark that shows the part of `bytes` most similar to `wanted`, or that there is none.
pub(super) fn nearest(bytes: &[u8], wanted: &str) -> String {
    let lines: Vec<&[u8]> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .take(MAX_COMPARED_LINES)
        .collect();
    let wanted_lines: Vec<&str> = wanted.lines().collect();
    // The longest line is the most specific one.
    let Some((anchor, longest)) = wanted_lines
        .iter()
        .enumerate()
        .max_by_key(|(_, line)| line.trim().len())
    else {
        return String::new();
    };
    let pairs = letter_pairs(longest);
    let best = lines
        .iter()
        .enumerate()
        .map(|(position, line)| {
            (
                likeness(&pairs, &letter_pairs(&String::from_utf8_lossy(line))),
                position,
            )
        })
        .fold(
            (0.0, 0),
            |best, next| if next.0 > best.0 { next } else { best },
        );
    if best.0 < ALIKE {
        return ", and nothing like it is".to_owned();
    }
    let first = best.1.saturating_sub(anchor);
    let shown = &lines[first
        ..lines
            .len()
            .min(first + wanted_lines.len().clamp(1, MAX_SHOWN_LINES))];
    let mut remark = String::from("; the nearest text is");
    if same_but_for_space(shown, &wanted_lines) {
        remark.push_str(" this, which differs in white space");
    }
    remark.push_str(":\n");
    for (position, line) in shown.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(remark, "{}", numbered(first + position + 1, line));
    }
    remark
}

fn same_but_for_space(shown: &[&[u8]], wanted: &[&str]) -> bool {
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    shown.len() == wanted.len()
        && shown
            .iter()
            .zip(wanted)
            .all(|(line, wanted)| words(&String::from_utf8_lossy(line)) == words(wanted))
}

fn letter_pairs(line: &str) -> Pairs {
    let letters = || line.trim().chars().take(MAX_COMPARED_CHARS);
    // A line of one character counts as a pair.
    letters().zip(letters().skip(1).chain(['\n'])).collect()
}

/// Returns the share of common pairs of two lines, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a line has few pairs")]
fn likeness(one: &Pairs, other: &Pairs) -> f64 {
    let common = one.intersection(other).count();
    let all = one.len() + other.len();
    if all == 0 {
        0.0
    } else {
        2.0 * common as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_lines_are_shown_with_their_numbers() {
        let file = b"alpha\n  beta(one, two)\ngamma\ndelta\n";
        let remark = nearest(file, "beta(one, too)\ngamma");
        assert_eq!(
            remark,
            "; the nearest text is:\n     2\t  beta(one, two)\n     3\tgamma\n"
        );
    }

    #[test]
    fn a_difference_in_white_space_is_named() {
        assert!(nearest(b"if x:\n\treturn  1\n", "    return 1").contains("white space"));
    }

    #[test]
    fn nothing_is_made_up() {
        for (file, wanted) in [
            (&b"alpha\nbeta\n"[..], "0123456789"),
            (b"", "x"),
            (b"\n\n", "x"),
            (b"\xff\n", "text"),
        ] {
            assert_eq!(nearest(file, wanted), ", and nothing like it is");
        }
    }
}
