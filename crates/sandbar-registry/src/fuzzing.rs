//! Ways to the parsers for the fuzzer. Each takes any bytes, and panics where a promise is broken.

use crate::{ImageReference, challenge::Challenge};

/// A reference that is understood is written in a way that is understood the same.
pub fn image_reference(bytes: &[u8]) {
    if let Ok(reference) = String::from_utf8_lossy(bytes).parse::<ImageReference>() {
        assert_eq!(reference.to_string().parse::<ImageReference>().ok(), Some(reference));
    }
}

/// The `WWW-Authenticate` header of a registry.
pub fn challenge(bytes: &[u8]) {
    let _ = Challenge::parse(&String::from_utf8_lossy(bytes));
}
