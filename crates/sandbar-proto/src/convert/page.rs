//! Pagination.

use sandbar_core::{PageRequest, Result};

pub(super) fn pack_page(page: &PageRequest) -> (u32, String) {
    (
        page.size.try_into().unwrap_or(u32::MAX),
        page.token.clone().unwrap_or_default(),
    )
}

/// Parses the page of a list request. Rejects an excessive page size before any work is done.
pub(super) fn unpack_page(size: u32, token: String) -> Result<PageRequest> {
    let token = if token.is_empty() { None } else { Some(token) };
    let page = PageRequest {
        size: usize::try_from(size).unwrap_or(usize::MAX),
        token,
    };
    page.checked_size()?;
    Ok(page)
}
