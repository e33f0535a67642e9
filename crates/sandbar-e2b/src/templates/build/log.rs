//! What a build says while it runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

/// What is kept of a build that talks without end: its beginning.
const MOST_ENTRIES: usize = 20_000;
const LONGEST_LINE: usize = 8 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "debug" => Some(Self::Debug),
            "info" => Some(Self::Info),
            "warn" => Some(Self::Warn),
            "error" => Some(Self::Error),
            _ => None,
        }
    }
}

/// One line, as SDKs read it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LogEntry {
    pub(crate) timestamp: String,
    pub(crate) message: String,
    pub(crate) level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<String>,
}

/// All lines of one build.
#[derive(Debug, Default)]
pub(crate) struct BuildLog(Mutex<Vec<LogEntry>>);

impl BuildLog {
    pub(crate) fn say(&self, level: Level, step: Option<&str>, message: impl Into<String>) {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(LONGEST_LINE));
        let mut entries = self.entries();
        if entries.len() < MOST_ENTRIES {
            let timestamp = Timestamp::now().to_string();
            entries.push(LogEntry { timestamp, message, level, step: step.map(ToOwned::to_owned) });
        }
    }

    /// Those from a number on, of at least a level. Numbers count only those.
    pub(crate) fn from(&self, offset: usize, most: usize, level: Level) -> Vec<LogEntry> {
        self.entries().iter().filter(|entry| entry.level >= level).skip(offset).take(most).cloned().collect()
    }

    /// The last lines of a step.
    pub(crate) fn end_of(&self, step: &str, most: usize) -> Vec<LogEntry> {
        let entries = self.entries();
        let mut last: Vec<LogEntry> =
            entries.iter().rev().filter(|entry| entry.step.as_deref() == Some(step)).take(most).cloned().collect();
        last.reverse();
        last
    }

    fn entries(&self) -> MutexGuard<'_, Vec<LogEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts output into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    /// The lines that are complete with these bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.0.extend_from_slice(bytes);
        let mut lines = Vec::new();
        while let Some(end) =
            self.0.iter().position(|byte| *byte == b'\n').or((self.0.len() > LONGEST_LINE).then_some(LONGEST_LINE))
        {
            let line: Vec<u8> = self.0.drain(..=end.min(self.0.len() - 1)).collect();
            lines.push(text(&line));
        }
        lines
    }

    /// What is left at the end.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.0);
        (!rest.is_empty()).then(|| text(&rest))
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end_matches(['\r', '\n']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_lines_wherever_it_was_cut() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"on"), Vec::<String>::new());
        assert_eq!(lines.push(b"e\r\ntwo\nth"), ["one", "two"]);
        assert_eq!(lines.push(&[b'x'; LONGEST_LINE + 5]).len(), 1);
        assert!(lines.rest().unwrap().ends_with('x'));
        assert_eq!(lines.rest(), None);
    }

    #[test]
    fn entries_are_counted_per_level() {
        let log = BuildLog::default();
        log.say(Level::Debug, None, "a");
        log.say(Level::Info, Some("1"), "b");
        log.say(Level::Warn, Some("1"), "c");
        assert_eq!(log.from(1, 10, Level::Info).len(), 1);
        assert_eq!(log.from(1, 10, Level::Debug).len(), 2);
        assert_eq!(log.end_of("1", 1)[0].message, "c");
    }
}
