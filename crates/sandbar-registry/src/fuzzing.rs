//! Ways to the parsers for the fuzzer.

use crate::{ImageReference, challenge::Challenge};

/// A reference that is understood is written in a way that is understood the same.
pub fn image_reference(text: &str) {
    if let Ok(reference) = text.parse::<ImageReference>() {
        assert_eq!(reference.to_string().parse::<ImageReference>().ok(), Some(reference));
    }
}

/// What a registry says about who may come in.
pub fn challenge(text: &str) {
    let _ = Challenge::parse(text);
}
