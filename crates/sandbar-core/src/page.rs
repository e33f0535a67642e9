//! Paged listings.

use crate::{Error, Labels, Result, SessionId, SessionState};

/// Selection of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Labels that must all match.
    pub labels: Labels,
    pub state: Option<SessionState>,
    /// Only these sessions; all when `None`.
    pub ids: Option<Vec<SessionId>>,
    /// Also return their current resource usage, which takes some time for each.
    pub with_usage: bool,
}

/// Selection of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// 0 is [`DEFAULT_SIZE`](Self::DEFAULT_SIZE).
    pub size: usize,
    /// [`Page::next_token`] of the previous page.
    pub token: Option<String>,
}

impl PageRequest {
    pub const DEFAULT_SIZE: usize = 100;
    pub const MAX_SIZE: usize = 1000;

    /// Returns the size of the page.
    pub fn checked_size(&self) -> Result<usize> {
        match self.size {
            0 => Ok(Self::DEFAULT_SIZE),
            size if size <= Self::MAX_SIZE => Ok(size),
            size => Err(
                Error::invalid("page_size", format!("page size {size} is too large"))
                    .with_hint(format!("ask for at most {}", Self::MAX_SIZE)),
            ),
        }
    }

    /// Returns the error for an unknown page token.
    pub fn bad_token() -> Error {
        Error::invalid("page_token", "page token is not valid")
            .with_hint("pass `next_page_token` of the previous page, or nothing for the first page")
    }
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// `None` on the last page.
    pub next_token: Option<String>,
}
