//! Pages of long listings.

use sandbar_core::{PageRequest, Result};

pub(super) fn pack_page(page: &PageRequest) -> (u32, String) {
    (page.size.try_into().unwrap_or(u32::MAX), page.token.clone().unwrap_or_default())
}

/// Which part of a listing is asked for. One that is too large is refused here, before anybody works for it.
pub(super) fn unpack_page(size: u32, token: String) -> Result<PageRequest> {
    let token = if token.is_empty() { None } else { Some(token) };
    let page = PageRequest { size: usize::try_from(size).unwrap_or(usize::MAX), token };
    page.checked_size()?;
    Ok(page)
}
