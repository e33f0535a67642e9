//! Which sessions are listed, in which order, and which of them is chosen.

use sandbar_core::SessionId;

use super::entry::{Column, Entry};

/// How the list is looked at.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) sort: Column,
    pub(crate) reversed: bool,
    /// Only sessions in which one of the words is this.
    pub(crate) filter: String,
    /// The chosen session. It stays chosen wherever it moves.
    chosen: Option<SessionId>,
    /// The first one that is visible.
    first: usize,
}

impl List {
    pub(crate) const fn new(sort: Column) -> Self {
        Self { sort, reversed: false, filter: String::new(), chosen: None, first: 0 }
    }

    /// The sessions that match, in order.
    pub(crate) fn arrange<'a>(&self, mut entries: Vec<Entry<'a>>) -> Vec<Entry<'a>> {
        entries.retain(|entry| self.matches(entry));
        entries.sort_by(|one, two| one.compare(two, self.sort));
        if self.reversed {
            entries.reverse();
        }
        entries
    }

    fn matches(&self, entry: &Entry<'_>) -> bool {
        let wanted = self.filter.to_lowercase();
        let session = entry.session;
        let labels = session.labels.iter().map(|(key, value)| format!("{key}={value}"));
        [session.id.to_string(), session.state.to_string(), session.base.to_string()]
            .into_iter()
            .chain(labels)
            .any(|word| word.to_lowercase().contains(&wanted))
    }

    pub(crate) fn sort_by(&mut self, column: Column) {
        self.reversed = self.sort == column && !self.reversed;
        self.sort = column;
    }

    /// The place of the chosen session, or of the first one.
    pub(crate) fn chosen_place(&self, entries: &[Entry<'_>]) -> Option<usize> {
        let place = entries.iter().position(|entry| Some(&entry.session.id) == self.chosen.as_ref());
        place.or_else(|| (!entries.is_empty()).then_some(0))
    }

    /// Moves the choice by so many places.
    pub(crate) fn move_by(&mut self, step: isize, entries: &[Entry<'_>]) {
        let Some(place) = self.chosen_place(entries) else { return };
        let place = place.saturating_add_signed(step).min(entries.len() - 1);
        self.chosen = Some(entries[place].session.id.clone());
    }

    /// The part of the list that is visible in so many rows, with the choice in it.
    pub(crate) fn visible(&mut self, entries: &[Entry<'_>], rows: usize) -> std::ops::Range<usize> {
        let place = self.chosen_place(entries).unwrap_or(0);
        let last = entries.len().saturating_sub(rows);
        self.first = self.first.min(place).max((place + 1).saturating_sub(rows)).min(last);
        self.first..entries.len().min(self.first + rows)
    }
}
