//! State of the user interface, and the keys that change it.

use sandbar_core::SessionId;

use super::{
    entry::{Column, Entry},
    list::List,
    sample::Observed,
};
use crate::terminal::screen::Key;

/// Page of the user interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    List,
    Details(SessionId),
    Help,
}

/// Action of a key beyond the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Quit,
    /// Ctrl-Z: suspend to the shell.
    Suspend,
    /// Ctrl-L: draw everything.
    Redraw,
    /// Query the host now.
    Refresh,
}

/// State of the user interface.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) page: Page,
    pub(crate) list: List,
    /// Whether keys edit the filter.
    pub(crate) typing: bool,
    /// Error message while the host does not answer.
    pub(crate) trouble: Option<String>,
}

impl View {
    pub(crate) const fn new(sort: Column) -> Self {
        Self {
            page: Page::List,
            list: List::new(sort),
            typing: false,
            trouble: None,
        }
    }

    /// Returns the session whose details are shown.
    pub(crate) fn details(&self) -> Option<&SessionId> {
        match &self.page {
            Page::Details(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the sessions on the list page.
    pub(crate) fn entries<'a>(&self, observed: &'a Observed) -> Vec<Entry<'a>> {
        self.list.arrange(Entry::all(observed))
    }

    /// Handles a key; `rows` is the height of the list.
    pub(crate) fn press(&mut self, key: Key, observed: &Observed, rows: usize) -> Action {
        match key {
            Key::Control('c') => return Action::Quit,
            Key::Control('z') => return Action::Suspend,
            Key::Control('l') => return Action::Redraw,
            _ => {}
        }
        if self.typing {
            self.type_filter(key);
            return Action::Nothing;
        }
        match (&self.page, key) {
            (Page::List, Key::Character('q')) => return Action::Quit,
            (_, Key::Escape | Key::Character('q')) if self.page != Page::List => {
                self.page = Page::List;
            }
            (_, Key::Character('?' | 'h')) => {
                self.page = if self.page == Page::Help {
                    Page::List
                } else {
                    Page::Help
                };
            }
            (Page::List, key) => return self.press_in_list(key, observed, rows),
            _ => {}
        }
        Action::Nothing
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Character(character) => self.list.filter.push(character),
            Key::Backspace => drop(self.list.filter.pop()),
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.list.filter.clear();
            }
            _ => {}
        }
    }

    fn press_in_list(&mut self, key: Key, observed: &Observed, rows: usize) -> Action {
        let entries = self.list.arrange(Entry::all(observed));
        let page = isize::try_from(rows).unwrap_or(1).max(1);
        match key {
            Key::Up | Key::Character('k') => self.list.move_by(-1, &entries),
            Key::Down | Key::Character('j') => self.list.move_by(1, &entries),
            Key::PageUp => self.list.move_by(-page, &entries),
            Key::PageDown => self.list.move_by(page, &entries),
            Key::Home => self.list.move_by(isize::MIN, &entries),
            Key::End => self.list.move_by(isize::MAX, &entries),
            Key::Character('/') => self.typing = true,
            Key::Escape => self.list.filter.clear(),
            Key::Character('r') => self.list.reversed = !self.list.reversed,
            Key::Character(' ') => return Action::Refresh,
            Key::Enter => {
                if let Some(index) = self.list.selected_index(&entries) {
                    self.page = Page::Details(entries[index].session.id.clone());
                    return Action::Refresh;
                }
            }
            Key::Character(character) => {
                if let Some(column) = Column::ALL
                    .into_iter()
                    .find(|column| column.key() == character)
                {
                    self.list.sort_by(column);
                }
            }
            _ => {}
        }
        Action::Nothing
    }
}
