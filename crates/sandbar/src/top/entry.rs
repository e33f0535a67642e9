//! One row: a session with its figures.

use std::cmp::Ordering;

use clap::ValueEnum;
use sandbar_core::{ByteCount, SessionInfo};

use super::sample::Observed;
use crate::view::short_age;

/// Column of the table, by which it can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Column {
    Id,
    State,
    Base,
    Age,
    Cpu,
    Memory,
    Processes,
    Disk,
}

impl Column {
    pub(crate) const ALL: [Self; 8] = [
        Self::Id,
        Self::State,
        Self::Base,
        Self::Age,
        Self::Cpu,
        Self::Memory,
        Self::Processes,
        Self::Disk,
    ];

    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Id => "ID",
            Self::State => "STATE",
            Self::Base => "BASE",
            Self::Age => "AGE",
            Self::Cpu => "CPU",
            Self::Memory => "MEMORY",
            Self::Processes => "PROCS",
            Self::Disk => "DISK",
        }
    }

    /// Returns the key that sorts by this column.
    pub(crate) const fn key(self) -> char {
        match self {
            Self::Id => 'i',
            Self::State => 's',
            Self::Base => 'b',
            Self::Age => 'a',
            Self::Cpu => 'c',
            Self::Memory => 'm',
            Self::Processes => 'p',
            Self::Disk => 'd',
        }
    }

    /// Returns whether the column is numeric: right-aligned and sorted in descending order.
    pub(crate) const fn is_figure(self) -> bool {
        matches!(
            self,
            Self::Age | Self::Cpu | Self::Memory | Self::Processes | Self::Disk
        )
    }
}

/// Session with its CPU usage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) session: &'a SessionInfo,
    /// 1.0 is one CPU.
    pub(crate) cpu: Option<f64>,
}

impl<'a> Entry<'a> {
    pub(crate) fn all(observed: &'a Observed) -> Vec<Self> {
        let shares = observed.cpu_shares();
        let cpu = |session: &SessionInfo| shares.get(&session.id).copied();
        observed
            .now
            .sessions
            .iter()
            .map(|session| Self {
                session,
                cpu: cpu(session),
            })
            .collect()
    }

    pub(crate) fn memory(&self) -> Option<ByteCount> {
        self.session.usage.and_then(|usage| usage.memory)
    }

    pub(crate) fn processes(&self) -> Option<u64> {
        self.session.usage.and_then(|usage| usage.processes)
    }

    pub(crate) fn text(&self, column: Column) -> String {
        let figure = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        match column {
            Column::Id => self.session.id.to_string(),
            Column::State => self.session.state.to_string(),
            Column::Base => self.session.base.to_string(),
            Column::Age => short_age(self.session.created),
            Column::Cpu => figure(self.cpu.map(percent)),
            Column::Memory => figure(self.memory().map(|memory| memory.to_string())),
            Column::Processes => figure(self.processes().map(|count| count.to_string())),
            Column::Disk => self.session.space_used.to_string(),
        }
    }

    /// Compares two sessions by a column: figures in descending, text in ascending order.
    pub(crate) fn compare(&self, other: &Self, column: Column) -> Ordering {
        let (one, two) = (self.session, other.session);
        match column {
            Column::Id => one.id.cmp(&two.id),
            Column::State => one.state.as_str().cmp(two.state.as_str()),
            Column::Base => one.base.cmp(&two.base),
            Column::Age => one.created.cmp(&two.created),
            Column::Cpu => other
                .cpu
                .unwrap_or(-1.0)
                .total_cmp(&self.cpu.unwrap_or(-1.0)),
            Column::Memory => other.memory().cmp(&self.memory()),
            Column::Processes => other.processes().cmp(&self.processes()),
            Column::Disk => two.space_used.cmp(&one.space_used),
        }
        .then_with(|| one.id.cmp(&two.id))
    }
}

/// Formats a CPU share: `37%`, where 100 % is one CPU.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if (0.05..9.95).contains(&percent) {
        format!("{percent:.1}%")
    } else {
        format!("{percent:.0}%")
    }
}
