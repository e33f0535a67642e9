//! Ids of templates and builds, and names of their bases.

use sandbar_core::{BaseName, Error, Result};

/// Prefixes of bases that belong to builds and are not templates by name.
pub(super) const BUILT_BASE: &str = "e2b-build-";
pub(super) const LAYER_BASE: &str = "e2b-layer-";
pub(super) const IMAGE_BASE: &str = "e2b-image-";

/// Returns whether a base belongs to a build.
pub(super) fn is_internal(base: &BaseName) -> bool {
    [BUILT_BASE, LAYER_BASE, IMAGE_BASE]
        .iter()
        .any(|prefix| base.as_str().starts_with(prefix))
}

/// Returns twenty letters and digits, the format of E2B's template ids.
pub(super) fn random_id() -> Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    let mut bytes = [0; 20];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::internal("random number generator is not available").with_source(error)
    })?;
    Ok(bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect())
}

/// Returns the id of a build: a UUID, because SDKs parse it as one.
pub(super) fn random_uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}
