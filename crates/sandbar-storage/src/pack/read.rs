//! Unpacking a volume.

use std::{
    fmt::Display,
    fs::File,
    io::{BufRead, BufReader},
};

use sandbar_core::{ByteCount, Error, ErrorCode, Result, SessionId};

use super::{
    fingerprint,
    manifest::{self, PackManifest, PackStep},
    objects::Objects,
    target::Target,
};
use crate::{
    Storage, VolumeSpec,
    archive::{ArchiveReader, Directories, Links, UnpackOptions, UnpackSummary, Unpacker, Zeros, decompress},
    remove_tree,
};

/// What is packed under `prefix`.
pub fn read_manifest(target: &Target, prefix: &str) -> Result<PackManifest> {
    manifest_of(&Objects::open(target, prefix)?)
}

fn manifest_of(objects: &Objects) -> Result<PackManifest> {
    let bytes = objects.get(manifest::NAME)?.ok_or_else(|| {
        Error::new(ErrorCode::FileNotFound, format!("there is no pack at {}", objects.place())).with_field("prefix")
    })?;
    parse_manifest(&bytes, objects.place())
}

/// The manifest of the pack at `place`.
pub(super) fn parse_manifest(bytes: &[u8], place: impl Display) -> Result<PackManifest> {
    let damaged = |error| {
        let message = format!("the manifest of the pack at {place} is damaged");
        Error::new(ErrorCode::InvalidArgument, message).with_source(error)
    };
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(damaged)?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    if format != Some(PackManifest::FORMAT.into()) {
        let format = format.map_or_else(|| "no format".into(), |format| format!("format {format}"));
        let message = format!("the pack at {place} has {format}, this program knows {}", PackManifest::FORMAT);
        return Err(
            Error::new(ErrorCode::InvalidArgument, message).with_hint("use the version of sandbar that packed it")
        );
    }
    serde_json::from_value(value).map_err(damaged)
}

/// A volume that came out of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    pub manifest: PackManifest,
    /// How often something could not be kept here: an attribute the file system does not know, a device without the
    /// right to make one.
    pub omitted: u64,
    /// The first few of those, for people.
    pub notes: Vec<String>,
}

/// Makes the volume `volume` from a pack, with its snapshots. The base must be here and look as it did where the volume
/// was packed. A failure leaves no volume. Blocks; do not call it from a task.
pub fn unpack(
    storage: &dyn Storage,
    target: &Target,
    prefix: &str,
    volume: &SessionId,
    quota: Option<ByteCount>,
) -> Result<Unpacked> {
    let objects = Objects::open(target, prefix)?;
    let pack = manifest_of(&objects)?;
    let found = fingerprint::of_base(storage, &pack.base).map_err(|error| match error.code() {
        ErrorCode::BaseNotFound => Error::new(
            ErrorCode::BaseNotFound,
            format!("the pack at {} needs base `{}`, which is not here", objects.place(), pack.base),
        )
        .with_hint(format!("import the same base first: `sandbar base import {} SOURCE`", pack.base)),
        _ => error,
    })?;
    if found != pack.base_fingerprint {
        let message = format!(
            "base `{}` differs from the one the session was packed on ({found} here, {} there)",
            pack.base, pack.base_fingerprint
        );
        return Err(Error::new(ErrorCode::InvalidState, message)
            .with_hint("import the base from the same source as on the other machine"));
    }
    storage.create(volume, &VolumeSpec { base: pack.base.clone(), quota })?;
    let applied = apply_all(storage, &objects, pack, volume);
    let unmounted = storage.unmount(volume);
    let unpacked = applied.and_then(|unpacked| unmounted.map(|()| unpacked));
    unpacked.inspect_err(|_| {
        if let Err(error) = storage.delete(volume) {
            tracing::warn!(error = error.chain(), %volume, "could not delete a half-unpacked volume");
        }
    })
}

fn apply_all(storage: &dyn Storage, objects: &Objects, manifest: PackManifest, volume: &SessionId) -> Result<Unpacked> {
    let root = storage.mount(volume)?;
    let mut unpacked = Unpacked { manifest, omitted: 0, notes: Vec::new() };
    for step in &unpacked.manifest.steps {
        let root = File::open(&root).map_err(|error| Error::io(format!("open `{}`", root.display()), error))?;
        let summary = apply(objects, step, root)?;
        unpacked.omitted += summary.omitted;
        unpacked.notes.extend(summary.notes);
        if let Some(snapshot) = &step.snapshot {
            storage.snapshot(volume, &snapshot.name)?;
        }
    }
    // The pack may be deleted next; then this is all there is.
    let synced = File::open(&root).and_then(|root| Ok(rustix::fs::syncfs(root)?));
    synced.map_err(|error| Error::io(format!("write `{}` to the disk", root.display()), error))?;
    Ok(unpacked)
}

fn apply(objects: &Objects, step: &PackStep, root: File) -> Result<UnpackSummary> {
    let (deleted, entries) = (objects.fetch(&step.deleted)?, objects.fetch(&step.entries)?);
    // Not every file system says where the holes of a file are, and one may be larger than all there is room for.
    let (directories, zeros) = (Directories::Replace, Zeros::Skip);
    let options = UnpackOptions { links: Links::Refuse, directories, zeros, ..UnpackOptions::CAREFUL };
    let mut unpacker = Unpacker::new(root.into(), options);
    for path in BufReader::new(decompress(deleted)?).split(0) {
        unpacker.remove(&path.map_err(|error| Error::io("read the deleted paths of a pack", error))?)?;
    }
    unpacker.unpack(&mut ArchiveReader::new(decompress(entries)?))?;
    Ok(unpacker.summary().clone())
}

/// Deletes a pack, or what a failed one left. Nothing there is fine.
pub fn delete_pack(target: &Target, prefix: &str) -> Result<()> {
    let objects = Objects::open(target, prefix)?;
    // Without a manifest there is no pack, whatever of the rest is left when this is cut short.
    objects.delete(manifest::NAME)?;
    objects.delete_all()?;
    match target {
        // Objects that were being written when their writer was killed are listed nowhere.
        Target::Directory(directory) => remove_tree(&directory.join(objects.prefix())),
        Target::S3(_) => Ok(()),
    }
}
