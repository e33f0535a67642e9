//! A way to the manifest of a pack for the fuzzer.

use super::read::parse_manifest;

/// A manifest: what was read is read again when it was written.
pub fn pack_manifest(bytes: &[u8]) {
    if let Ok(manifest) = parse_manifest(bytes, "here") {
        let _ = (manifest.size(), manifest.snapshots().count());
        let again = serde_json::to_vec(&manifest).ok().and_then(|text| parse_manifest(&text, "here").ok());
        assert!(again.as_ref() == Some(&manifest), "{manifest:?} became {again:?}");
    }
}
