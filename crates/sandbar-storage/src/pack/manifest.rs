//! The manifest of a pack.

use jiff::Timestamp;
use sandbar_core::{BaseName, SessionId, SnapshotKind, SnapshotName};
use serde::{Deserialize, Serialize};

/// Name of the manifest below the prefix of a pack.
pub(super) const NAME: &str = "manifest.json";
/// Size limit of a manifest: some 20 000 snapshots.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// Content of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackManifest {
    /// Format version; unknown versions are refused.
    pub format: u32,
    pub created: Timestamp,
    /// Session whose volume was packed.
    pub session: SessionId,
    pub base: BaseName,
    /// Fingerprint of the base. The differences apply only to the same base.
    pub base_fingerprint: String,
    /// Steps in the order they are applied; the last one gives the packed volume.
    pub steps: Vec<PackStep>,
}

impl PackManifest {
    pub const FORMAT: u32 = 2;

    /// Returns a hash of the whole manifest, and so of every object it names.
    pub fn fingerprint(&self) -> String {
        // A manifest consists of numbers and strings, which always encode.
        let text = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&text).to_hex().to_string()
    }

    /// Returns the snapshots of the volume, oldest first.
    pub fn snapshots(&self) -> impl Iterator<Item = &PackedSnapshot> {
        self.steps.iter().filter_map(|step| step.snapshot.as_ref())
    }

    /// Returns the bytes in the object store, without the manifest.
    pub fn size(&self) -> u64 {
        // Saturating: the manifest is not trusted.
        let sizes = self
            .steps
            .iter()
            .flat_map(|step| [step.deleted.size, step.entries.size]);
        sizes.fold(0, u64::saturating_add)
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackStep {
    /// Snapshot that this step gives; `None` for the volume itself.
    pub snapshot: Option<PackedSnapshot>,
    /// Deleted paths, each terminated by a zero byte, compressed with zstd.
    pub deleted: PackObject,
    /// Bytes of `deleted`, decompressed.
    pub deleted_bytes: u64,
    /// New and changed entries: a tar archive compressed with zstd.
    pub entries: PackObject,
    /// Number of entries in the archive, and the sizes of its files.
    pub entry_count: u64,
    pub entry_bytes: u64,
}

/// Snapshot in a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedSnapshot {
    pub name: SnapshotName,
    pub kind: SnapshotKind,
    /// Time of the original snapshot; the unpacked one has its own.
    pub created: Timestamp,
}

/// Object of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackObject {
    /// Name relative to the prefix of the pack.
    pub name: String,
    pub size: u64,
    pub blake3: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_sizes_are_added_without_overflow() {
        let object = PackObject {
            name: "x".into(),
            size: u64::MAX,
            blake3: String::new(),
        };
        let step = PackStep {
            snapshot: None,
            deleted: object.clone(),
            deleted_bytes: 0,
            entries: object,
            entry_count: 0,
            entry_bytes: 0,
        };
        let manifest = PackManifest {
            format: PackManifest::FORMAT,
            created: Timestamp::UNIX_EPOCH,
            session: "packed".parse().unwrap(),
            base: "small".parse().unwrap(),
            base_fingerprint: String::new(),
            steps: vec![step],
        };
        assert_eq!(manifest.size(), u64::MAX);
    }
}
