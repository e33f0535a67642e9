//! Volumes in an object store: packed on one machine, unpacked on another, whatever the backends.
//!
//! A pack is the history of a volume as differences: the first snapshot against the base, each next one against the one
//! before, and last the volume as it is now. Each step is a list of deleted paths and an archive of changed entries;
//! `manifest.json` names them with their hashes.
//!
//! Invariant: the manifest is written last and deleted first, so what has one is whole. Nothing of a step is applied
//! before its hash was checked, and a volume that could not be unpacked to the end does not stay.

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
pub use read::{Unpacked, delete_pack, read_manifest, unpack};
pub use target::{S3Target, Target};
pub use write::pack;
