//! Entry point of the fuzzer.

use super::read::parse_manifest;

/// A manifest that parses is unchanged by a round trip.
pub fn pack_manifest(bytes: &[u8]) {
    if let Ok(manifest) = parse_manifest(bytes, "here") {
        let _ = (manifest.size(), manifest.snapshots().count());
        let again = serde_json::to_vec(&manifest)
            .ok()
            .and_then(|text| parse_manifest(&text, "here").ok());
        assert!(
            again.as_ref() == Some(&manifest),
            "{manifest:?} became {again:?}"
        );
    }
}
