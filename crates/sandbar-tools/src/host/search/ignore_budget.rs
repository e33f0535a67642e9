//! Limits on the ignore files of one search, because compiled rules take many times the memory of
//! their text, in the host's process.

use std::borrow::Cow;

/// Bytes used of one file.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 10;

/// Patterns used of one file.
const MAX_FILE_PATTERNS: usize = 2_000;

/// Bytes of all files of a search.
const MAX_SEARCH_BYTES: usize = 32 << 20;

/// Patterns of all files of a search.
const MAX_SEARCH_PATTERNS: usize = 20_000;

/// Files from the root down to the current directory. Each has a cache that grows while paths are
/// matched.
const MAX_NESTED_FILES: usize = 64;

/// Remaining bytes, patterns and nesting allowed for the ignore files of one search.
#[derive(Debug)]
pub(super) struct IgnoreBudget {
    bytes: usize,
    patterns: usize,
    nested: usize,
    /// Whether a file or a part of one was left out.
    exceeded: bool,
}

impl Default for IgnoreBudget {
    fn default() -> Self {
        Self {
            bytes: MAX_SEARCH_BYTES,
            patterns: MAX_SEARCH_PATTERNS,
            nested: MAX_NESTED_FILES,
            exceeded: false,
        }
    }
}

impl IgnoreBudget {
    /// Returns the part of a file within the limits; `None` when it is left out. `bytes` may have
    /// one byte more than the limit, which means that the file is longer.
    pub(super) fn take<'a>(&mut self, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let is_blank = |line: &[u8]| line.trim_ascii().is_empty() || line.starts_with(b"#");
        let most = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
        let (mut end, mut patterns) = (0, 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let after = end + line.len();
            let counted = patterns + usize::from(!is_blank(line));
            // A truncated line could be another pattern.
            if after > most || counted > MAX_FILE_PATTERNS {
                self.exceeded = true;
                break;
            }
            (end, patterns) = (after, counted);
        }
        if patterns == 0 {
            return None;
        }
        if end > self.bytes || patterns > self.patterns || self.nested == 0 {
            self.exceeded = true;
            return None;
        }
        self.bytes -= end;
        self.patterns -= patterns;
        Some(String::from_utf8_lossy(
            bytes.get(..end).unwrap_or_default(),
        ))
    }

    /// Adds files in use.
    pub(super) fn keep(&mut self, files: usize) {
        self.nested = self.nested.saturating_sub(files);
    }

    /// Counts files the search let go of.
    pub(super) fn give_back(&mut self, files: usize) {
        self.nested += files;
    }

    /// Returns a remark if something was left out.
    pub(super) fn note(&self) -> Option<String> {
        self.exceeded
            .then(|| "some ignore files were not applied: too large or too many".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_within_the_bounds_counts_as_it_is() {
        let mut budget = IgnoreBudget::default();
        assert_eq!(
            budget
                .take("\u{feff}# all\n\ntarget/\n*.o".as_bytes())
                .unwrap(),
            "# all\n\ntarget/\n*.o"
        );
        assert_eq!(
            (budget.patterns, budget.note()),
            (MAX_SEARCH_PATTERNS - 2, None)
        );
        assert!(budget.take(b"\n# nothing\n").is_none() && budget.note().is_none());
    }

    #[test]
    fn file_beyond_the_bounds_counts_to_its_last_whole_line() {
        let mut budget = IgnoreBudget::default();
        let long = format!("first\n{}\n", "a".repeat(64 << 10));
        assert_eq!(budget.take(long.as_bytes()).unwrap(), "first\n");
        assert!(budget.note().is_some());
        let mut budget = IgnoreBudget::default();
        assert_eq!(
            budget
                .take("a\n".repeat(3_000).as_bytes())
                .unwrap()
                .lines()
                .count(),
            MAX_FILE_PATTERNS
        );
        assert!(budget.note().is_some());
    }

    #[test]
    fn search_beyond_its_budget_reads_no_further_file() {
        let mut budget = IgnoreBudget::default();
        let file = "a\n".repeat(MAX_FILE_PATTERNS);
        for _ in 0..MAX_SEARCH_PATTERNS / MAX_FILE_PATTERNS {
            assert!(budget.take(file.as_bytes()).is_some() && budget.note().is_none());
        }
        assert!(budget.take(b"a\n").is_none() && budget.note().is_some());
    }

    #[test]
    fn nested_files_beyond_the_bound_do_not_count() {
        let mut budget = IgnoreBudget::default();
        budget.keep(MAX_NESTED_FILES);
        assert!(budget.take(b"a\n").is_none() && budget.note().is_some());
        budget.give_back(1);
        assert!(budget.take(b"a\n").is_some());
    }
}
