//! Bounded output of a command: the beginning, the end, and the number of bytes left out between.

use std::{collections::VecDeque, fmt::Write as _};

use super::CONTENT_LIMIT;

/// Shorter pieces are merged.
const PIECE: usize = 4 << 10;

/// Keeps the first and the last half of the limit.
#[derive(Debug)]
pub(crate) struct Transcript {
    half: usize,
    head: String,
    /// Pieces after the head, in total a little more than half the limit.
    tail: VecDeque<String>,
    tail_bytes: usize,
    left_out: usize,
}

impl Default for Transcript {
    fn default() -> Self {
        Self::with_limit(CONTENT_LIMIT)
    }
}

impl Transcript {
    fn with_limit(limit: usize) -> Self {
        Self {
            half: limit / 2,
            head: String::new(),
            tail: VecDeque::new(),
            tail_bytes: 0,
            left_out: 0,
        }
    }

    pub(crate) fn push(&mut self, text: &str) {
        let room = if self.tail.is_empty() {
            self.half.saturating_sub(self.head.len())
        } else {
            0
        };
        let (first, rest) = text.split_at(text.floor_char_boundary(room));
        self.head.push_str(first);
        if rest.is_empty() {
            return;
        }
        match self.tail.back_mut() {
            // Merges small pieces, because output may arrive byte by byte.
            Some(last) if last.len() < PIECE => last.push_str(rest),
            _ => self.tail.push_back(rest.to_owned()),
        }
        self.tail_bytes += rest.len();
        while self.tail_bytes > self.half {
            let excess = self.tail_bytes - self.half;
            let Some(oldest) = self.tail.front_mut() else {
                break;
            };
            let cut = oldest.ceil_char_boundary(excess.min(oldest.len()));
            self.left_out += cut;
            self.tail_bytes -= cut;
            if cut == oldest.len() {
                self.tail.pop_front();
            } else {
                oldest.drain(..cut);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty()
    }

    /// Returns the text, and whether a part was left out.
    pub(crate) fn finish(self) -> (String, bool) {
        let mut text = self.head;
        if self.left_out > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n[… {} bytes left out …]\n", self.left_out);
        }
        for piece in &self.tail {
            text.push_str(piece);
        }
        (text, self.left_out > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_output_keeps_its_beginning_and_its_end() {
        let mut transcript = Transcript::with_limit(20);
        for piece in ["0123456", "789abcé", "fghijklmno", "pqrstuvwxyz"] {
            transcript.push(piece);
        }
        let (text, cut) = transcript.finish();
        assert!(cut);
        assert!(
            text.starts_with("0123456789\n[… ") && text.ends_with("qrstuvwxyz"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn short_output_is_kept_whole_and_long_output_is_bounded(pieces in prop::collection::vec("\\PC{0,30}", 0..20)) {
            let mut transcript = Transcript::with_limit(100);
            for piece in &pieces {
                transcript.push(piece);
            }
            prop_assert!(transcript.head.len() <= 50 && transcript.tail_bytes <= 50);
            let whole = pieces.concat();
            let (text, cut) = transcript.finish();
            if cut {
                prop_assert!(whole.len() > 90);
            } else {
                prop_assert_eq!(text, whole);
            }
        }
    }
}
