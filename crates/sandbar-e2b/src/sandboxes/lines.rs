//! Splitting command output into lines.

/// Longer lines are cut.
pub(crate) const MAX_LINE_BYTES: usize = 8 * 1024;

/// Collects output until a line is complete.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<u8>);

impl Lines {
    /// Adds bytes and returns the lines they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.0.extend_from_slice(bytes);
        let mut lines = Vec::new();
        while let Some(end) = self
            .0
            .iter()
            .position(|byte| *byte == b'\n')
            .or((self.0.len() > MAX_LINE_BYTES).then_some(MAX_LINE_BYTES))
        {
            let line: Vec<u8> = self.0.drain(..=end.min(self.0.len() - 1)).collect();
            lines.push(text(&line));
        }
        lines
    }

    /// Returns the last line if it has no line break.
    pub(super) fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.0);
        (!rest.is_empty()).then(|| text(&rest))
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line)
        .trim_end_matches(['\r', '\n'])
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_split_into_lines_wherever_it_was_cut() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"on"), Vec::<String>::new());
        assert_eq!(lines.push(b"e\r\ntwo\nth"), ["one", "two"]);
        assert_eq!(lines.push(&[b'x'; MAX_LINE_BYTES + 5]).len(), 1);
        assert!(lines.finish().unwrap().ends_with('x'));
        assert_eq!(lines.finish(), None);
    }
}
