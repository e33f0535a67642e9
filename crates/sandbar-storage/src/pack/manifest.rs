//! What a pack says about itself.

use jiff::Timestamp;
use sandbar_core::{BaseName, SnapshotKind, SnapshotName};
use serde::{Deserialize, Serialize};

/// The name of the manifest below the prefix of a pack.
pub(super) const NAME: &str = "manifest.json";

/// The content of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackManifest {
    /// Format of the pack; a program refuses one it does not know.
    pub format: u32,
    pub created: Timestamp,
    pub base: BaseName,
    /// What the base looked like. Differences against another one would make another tree.
    pub base_fingerprint: String,
    /// In the order they are applied; the last one leads to the volume as it was when it was packed.
    pub steps: Vec<PackStep>,
}

impl PackManifest {
    pub const FORMAT: u32 = 1;

    /// The snapshots of the volume, oldest first.
    pub fn snapshots(&self) -> impl Iterator<Item = &PackedSnapshot> {
        self.steps.iter().filter_map(|step| step.snapshot.as_ref())
    }

    /// Bytes in the object store, the manifest not counted.
    pub fn size(&self) -> u64 {
        // The numbers may be anybody's.
        let sizes = self.steps.iter().flat_map(|step| [step.deleted.size, step.entries.size]);
        sizes.fold(0, u64::saturating_add)
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackStep {
    /// The snapshot this step leads to; `None` for the volume itself.
    pub snapshot: Option<PackedSnapshot>,
    /// Paths that are gone, each ended by a zero byte, compressed with zstd.
    pub deleted: PackObject,
    /// Entries that are new or changed: a tar archive compressed with zstd.
    pub entries: PackObject,
}

/// A snapshot in a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedSnapshot {
    pub name: SnapshotName,
    pub kind: SnapshotKind,
    /// When it was taken first; the one that is unpacked has a time of its own.
    pub created: Timestamp,
}

/// An object of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackObject {
    /// Relative to the prefix of the pack.
    pub name: String,
    pub size: u64,
    pub blake3: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_nobody_can_have_are_added_up_all_the_same() {
        let object = PackObject { name: "x".into(), size: u64::MAX, blake3: String::new() };
        let step = PackStep { snapshot: None, deleted: object.clone(), entries: object };
        let manifest = PackManifest {
            format: PackManifest::FORMAT,
            created: Timestamp::UNIX_EPOCH,
            base: "small".parse().unwrap(),
            base_fingerprint: String::new(),
            steps: vec![step],
        };
        assert_eq!(manifest.size(), u64::MAX);
    }
}
