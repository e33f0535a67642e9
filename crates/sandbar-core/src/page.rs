//! Long listings, a page at a time.

use crate::{Labels, SessionState};

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// All of these must match.
    pub labels: Labels,
    pub state: Option<SessionState>,
}

/// Which part of a listing to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// 0 is [`DEFAULT_SIZE`](Self::DEFAULT_SIZE).
    pub size: usize,
    /// [`Page::next_token`] of the page before.
    pub token: Option<String>,
}

impl PageRequest {
    pub const DEFAULT_SIZE: usize = 100;
    pub const LARGEST_SIZE: usize = 1000;
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// `None` on the last page.
    pub next_token: Option<String>,
}
