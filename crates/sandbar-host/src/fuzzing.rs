//! Ways into the readers of this crate for the fuzzer. Each takes any bytes, and panics where a promise is broken.

use crate::object_store;
pub use crate::{metrics::fuzzing::metric_label, session::page_token};

/// The place hibernated sessions are kept.
pub fn object_store_address(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = object_store::parse(text);
    }
}
