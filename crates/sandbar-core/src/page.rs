//! Long listings, a page at a time.

use crate::{Error, Labels, Result, SessionId, SessionState};

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// All of these must match.
    pub labels: Labels,
    pub state: Option<SessionState>,
    /// Only these; `None` is all of them.
    pub ids: Option<Vec<SessionId>>,
    /// Also tell what runs in them uses now, which costs a little for each.
    pub with_usage: bool,
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

    /// How many items the page may have.
    pub fn checked_size(&self) -> Result<usize> {
        match self.size {
            0 => Ok(Self::DEFAULT_SIZE),
            size if size <= Self::LARGEST_SIZE => Ok(size),
            size => Err(Error::invalid("page_size", format!("a page of {size} entries is too large"))
                .with_hint(format!("ask for at most {}", Self::LARGEST_SIZE))),
        }
    }

    /// What is told about a token that is none of ours.
    pub fn bad_token() -> Error {
        Error::invalid("page_token", "this is not a page token of ours")
            .with_hint("pass `next_page_token` of the page before, or nothing for the first page")
    }
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// `None` on the last page.
    pub next_token: Option<String>,
}
