//! Order, filter and selection of the list.

use sandbar_core::SessionId;

use super::entry::{Column, Entry};

/// State of the list.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) sort: Column,
    pub(crate) reversed: bool,
    /// Text that a session must contain in id, state, base or a label.
    pub(crate) filter: String,
    /// Selected session; it stays selected when its row moves.
    selected: Option<SessionId>,
    /// Index of the first visible session.
    first: usize,
}

impl List {
    pub(crate) const fn new(sort: Column) -> Self {
        Self {
            sort,
            reversed: false,
            filter: String::new(),
            selected: None,
            first: 0,
        }
    }

    /// Returns the matching sessions in order.
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
        let labels = session
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        [
            session.id.to_string(),
            session.state.to_string(),
            session.base.to_string(),
        ]
        .into_iter()
        .chain(labels)
        .any(|word| word.to_lowercase().contains(&wanted))
    }

    pub(crate) fn sort_by(&mut self, column: Column) {
        self.reversed = self.sort == column && !self.reversed;
        self.sort = column;
    }

    /// Returns the index of the selected session, or of the first one.
    pub(crate) fn selected_index(&self, entries: &[Entry<'_>]) -> Option<usize> {
        let index = entries
            .iter()
            .position(|entry| Some(&entry.session.id) == self.selected.as_ref());
        index.or_else(|| (!entries.is_empty()).then_some(0))
    }

    /// Moves the selection by `step` rows.
    pub(crate) fn move_by(&mut self, step: isize, entries: &[Entry<'_>]) {
        let Some(index) = self.selected_index(entries) else {
            return;
        };
        let index = index.saturating_add_signed(step).min(entries.len() - 1);
        self.selected = Some(entries[index].session.id.clone());
    }

    /// Returns the visible part of the list, which contains the selection.
    pub(crate) fn visible(&mut self, entries: &[Entry<'_>], rows: usize) -> std::ops::Range<usize> {
        let index = self.selected_index(entries).unwrap_or(0);
        let last = entries.len().saturating_sub(rows);
        self.first = self
            .first
            .min(index)
            .max((index + 1).saturating_sub(rows))
            .min(last);
        self.first..entries.len().min(self.first + rows)
    }
}
