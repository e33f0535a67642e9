//! Fuzz targets for the parsers of this crate. Each takes any bytes and panics when an invariant is
//! broken.

use crate::object_store;
pub use crate::{metrics::fuzzing::metric_label, session::page_token};

/// The configuration key `object_store`.
pub fn object_store_address(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = object_store::parse(text);
    }
}
