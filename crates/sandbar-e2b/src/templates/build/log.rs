//! Log of a build.

use std::sync::{Mutex, MutexGuard};

use jiff::Timestamp;
use sandbar_core::MutexExt as _;
use serde::Serialize;

use crate::sandboxes::{MAX_LINE_BYTES, OutputStream};

/// Limit of a log; later lines are dropped.
const MAX_ENTRIES: usize = 20_000;

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

/// One line, in the format of the SDKs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LogEntry {
    pub(crate) timestamp: String,
    pub(crate) message: String,
    pub(crate) level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<String>,
}

/// Log of one build.
#[derive(Debug, Default)]
pub(crate) struct BuildLog(Mutex<Vec<LogEntry>>);

impl BuildLog {
    pub(crate) fn add(&self, level: Level, step: Option<&str>, message: impl Into<String>) {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MAX_LINE_BYTES));
        let mut entries = self.entries();
        if entries.len() < MAX_ENTRIES {
            let timestamp = Timestamp::now().to_string();
            entries.push(LogEntry {
                timestamp,
                message,
                level,
                step: step.map(ToOwned::to_owned),
            });
        }
    }

    /// Returns entries of at least a level. `offset` counts only these.
    pub(crate) fn entries_from(&self, offset: usize, limit: usize, level: Level) -> Vec<LogEntry> {
        self.entries()
            .iter()
            .filter(|entry| entry.level >= level)
            .skip(offset)
            .take(limit)
            .cloned()
            .collect()
    }

    /// Returns the last lines of a step.
    pub(crate) fn end_of(&self, step: &str, limit: usize) -> Vec<LogEntry> {
        let entries = self.entries();
        let mut last: Vec<LogEntry> = entries
            .iter()
            .rev()
            .filter(|entry| entry.step.as_deref() == Some(step))
            .take(limit)
            .cloned()
            .collect();
        last.reverse();
        last
    }

    fn entries(&self) -> MutexGuard<'_, Vec<LogEntry>> {
        self.0.lock_unpoisoned()
    }
}

/// Adds the output of a command to the log of a step.
pub(super) struct StepOutput<'a> {
    pub(super) log: &'a BuildLog,
    /// Prefix of each line.
    pub(super) prefix: &'a str,
    pub(super) step: &'a str,
}

impl StepOutput<'_> {
    pub(super) fn add(&self, stream: OutputStream, line: &str) {
        let (level, name) = match stream {
            OutputStream::Stdout => (Level::Info, "stdout"),
            OutputStream::Stderr => (Level::Warn, "stderr"),
        };
        let message = format!("[{}] [{name}]: {line}", self.prefix);
        self.log.add(level, Some(self.step), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_counts_entries_of_the_level() {
        let log = BuildLog::default();
        log.add(Level::Debug, None, "a");
        log.add(Level::Info, Some("1"), "b");
        log.add(Level::Warn, Some("1"), "c");
        assert_eq!(log.entries_from(1, 10, Level::Info).len(), 1);
        assert_eq!(log.entries_from(1, 10, Level::Debug).len(), 2);
        assert_eq!(log.end_of("1", 1)[0].message, "c");
    }
}
