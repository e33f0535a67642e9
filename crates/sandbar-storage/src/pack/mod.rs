//! Packs: hibernated volumes in an object store, packed on one machine and unpacked on another,
//! with any backend.
//!
//! A pack is the history of a volume as differences: the first snapshot against the base, each
//! snapshot against the one before, and last the current volume. Each step is a list of deleted
//! paths and an archive of changed entries; `manifest.json` names them with their hashes.
//!
//! Invariant: the manifest is written last and deleted first, so a pack with a manifest is
//! complete. A step is applied only after its hash was checked, and a volume that could not be
//! unpacked completely is deleted.

mod directory;
mod fingerprint;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod hard_links;
mod manifest;
mod objects;
mod read;
mod target;
mod write;

pub use manifest::{PackManifest, PackObject, PackStep, PackedSnapshot};
pub use read::{PackReference, Unpacked, delete_pack, read_manifest, unpack};
pub use target::{S3Target, Target};
pub use write::pack;
