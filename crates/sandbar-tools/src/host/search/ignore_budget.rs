//! Bounds on the ignore files of one search. A compiled file takes many times the memory of its text, in the host's process.

use std::borrow::Cow;

/// Bytes of one file that count.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 10;

/// Patterns of one file that count.
const MAX_FILE_PATTERNS: usize = 2_000;

/// Bytes of all files of a search.
const MAX_SEARCH_BYTES: usize = 32 << 20;

/// Patterns of all files of a search.
const MAX_SEARCH_PATTERNS: usize = 20_000;

/// Files from the root down to where a search is. Each may grow a cache of its own while paths are matched.
const MAX_NESTED_FILES: usize = 64;

/// What the ignore files of one search may still cost.
#[derive(Debug)]
pub(super) struct IgnoreBudget {
    bytes: usize,
    patterns: usize,
    nested: usize,
    /// Something did not count.
    exceeded: bool,
}

impl Default for IgnoreBudget {
    fn default() -> Self {
        Self { bytes: MAX_SEARCH_BYTES, patterns: MAX_SEARCH_PATTERNS, nested: MAX_NESTED_FILES, exceeded: false }
    }
}

impl IgnoreBudget {
    /// Returns the part of a file that counts; `None` when it does not count at all. `bytes` may be one byte longer than the
    /// part of a file that counts, which says that the file goes on.
    pub(super) fn take<'a>(&mut self, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let is_blank = |line: &[u8]| line.trim_ascii().is_empty() || line.starts_with(b"#");
        let most = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
        let (mut end, mut patterns) = (0, 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let after = end + line.len();
            let counted = patterns + usize::from(!is_blank(line));
            // A line that is cut off could be another pattern than the one that is meant.
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
        Some(String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()))
    }

    /// Counts files the search holds on to.
    pub(super) fn keep(&mut self, files: usize) {
        self.nested = self.nested.saturating_sub(files);
    }

    /// Counts files the search let go of.
    pub(super) fn give_back(&mut self, files: usize) {
        self.nested += files;
    }

    /// Says that something did not count, when so.
    pub(super) fn note(&self) -> Option<String> {
        self.exceeded.then(|| "ignore files were too large or too many, and do not all count".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_within_the_bounds_counts_as_it_is() {
        let mut budget = IgnoreBudget::default();
        assert_eq!(budget.take("\u{feff}# all\n\ntarget/\n*.o".as_bytes()).unwrap(), "# all\n\ntarget/\n*.o");
        assert_eq!((budget.patterns, budget.note()), (MAX_SEARCH_PATTERNS - 2, None));
        assert!(budget.take(b"\n# nothing\n").is_none() && budget.note().is_none());
    }

    #[test]
    fn file_beyond_the_bounds_counts_to_its_last_whole_line() {
        let mut budget = IgnoreBudget::default();
        let long = format!("first\n{}\n", "a".repeat(64 << 10));
        assert_eq!(budget.take(long.as_bytes()).unwrap(), "first\n");
        assert!(budget.note().is_some());
        let mut budget = IgnoreBudget::default();
        assert_eq!(budget.take("a\n".repeat(3_000).as_bytes()).unwrap().lines().count(), MAX_FILE_PATTERNS);
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
