//! Lines of bounded length.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Longest line that is read: what a message to the host may have.
pub(super) const LONGEST: usize = 16 << 20;

/// What came in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// It was longer than is read, and is not kept.
    TooLong,
}

/// Reads lines. Waiting for one can be given up at any time without losing anything.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    longest: usize,
    line: Vec<u8>,
    too_long: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, longest: usize) -> Self {
        Self { input, longest, line: Vec::new(), too_long: false }
    }

    /// The next line without its end; `None` at the end of the input.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                let nothing_left = self.line.is_empty() && !self.too_long;
                return Ok(if nothing_left { None } else { Some(self.take()) });
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if self.line.len() + part.len() > self.longest {
                self.too_long = true;
            }
            if self.too_long {
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            let used = end.map_or(available.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.too_long) { Line::TooLong } else { Line::Whole(line) }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_those_beyond_the_limit_are_skipped() {
        for capacity in [1, 3, 100] {
            let input = BufReader::with_capacity(capacity, &b"one\n\nlonger than ten\nexactly 10\nrest"[..]);
            let mut lines = Lines::new(input, 10);
            let mut read = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                read.push(line);
            }
            let whole = |text: &str| Line::Whole(text.into());
            assert_eq!(read, [whole("one"), whole(""), Line::TooLong, whole("exactly 10"), whole("rest")]);
        }
    }
}
