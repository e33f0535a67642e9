//! What is looked at, and what keys change about it.

use sandbar_core::SessionId;

use super::{
    entry::{Column, Entry},
    list::List,
    sample::Observed,
};
use crate::screen::Key;

/// One of the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    List,
    Details(SessionId),
    Help,
}

/// What a key asks for beyond the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    Leave,
    /// Ctrl-Z: back to the shell for a while.
    Suspend,
    /// Ctrl-L: draw everything.
    Redraw,
    /// Ask the host at once.
    Refresh,
}

#[derive(Debug)]
pub(crate) struct View {
    pub(crate) page: Page,
    pub(crate) list: List,
    /// Whether keys go into the filter.
    pub(crate) typing: bool,
    /// Since when the host does not answer, in words; nothing while it does.
    pub(crate) trouble: Option<String>,
}

impl View {
    pub(crate) const fn new(sort: Column) -> Self {
        Self { page: Page::List, list: List::new(sort), typing: false, trouble: None }
    }

    /// The session more is to be asked about.
    pub(crate) fn details(&self) -> Option<&SessionId> {
        match &self.page {
            Page::Details(id) => Some(id),
            _ => None,
        }
    }

    /// The sessions on the list page.
    pub(crate) fn entries<'a>(&self, observed: &'a Observed) -> Vec<Entry<'a>> {
        self.list.arrange(Entry::all(observed))
    }

    /// Does what a key says; `rows` is the height of the list.
    pub(crate) fn press(&mut self, key: Key, observed: &Observed, rows: usize) -> Wish {
        match key {
            Key::Control('c') => return Wish::Leave,
            Key::Control('z') => return Wish::Suspend,
            Key::Control('l') => return Wish::Redraw,
            _ => {}
        }
        if self.typing {
            self.type_filter(key);
            return Wish::Nothing;
        }
        match (&self.page, key) {
            (Page::List, Key::Character('q')) => return Wish::Leave,
            (_, Key::Escape | Key::Character('q')) if self.page != Page::List => self.page = Page::List,
            (_, Key::Character('?' | 'h')) => {
                self.page = if self.page == Page::Help { Page::List } else { Page::Help };
            }
            (Page::List, key) => return self.press_in_list(key, observed, rows),
            _ => {}
        }
        Wish::Nothing
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

    fn press_in_list(&mut self, key: Key, observed: &Observed, rows: usize) -> Wish {
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
            Key::Character(' ') => return Wish::Refresh,
            Key::Enter => {
                if let Some(place) = self.list.chosen_place(&entries) {
                    self.page = Page::Details(entries[place].session.id.clone());
                    return Wish::Refresh;
                }
            }
            Key::Character(character) => {
                if let Some(column) = Column::ALL.into_iter().find(|column| column.key() == character) {
                    self.list.sort_by(column);
                }
            }
            _ => {}
        }
        Wish::Nothing
    }
}
