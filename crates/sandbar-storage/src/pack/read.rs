//! Unpacking a volume.

use std::{
    fmt::Display,
    fs::File,
    io::{BufRead, BufReader, Read as _},
};

use sandbar_core::{ByteCount, Error, ErrorCode, Result, SessionId};
use sandbar_tree::archive::{
    ArchiveReader, Devices, Directories, Limits, Links, UnpackOptions, UnpackSummary, Unpacker,
    Zeros, decompress,
};

use super::{
    fingerprint,
    manifest::{self, PackManifest, PackStep},
    objects::Objects,
    target::Target,
};
use crate::{Storage, VolumeSpec};

/// Limit on one path that was deleted, as on names in an archive.
const MAX_PATH_BYTES: u64 = 8 << 20;
/// Limit on the headers of one entry: extended headers and the map of a sparse file.
const MAX_HEADER_BYTES: u64 = 64 << 20;

/// Reads the manifest of the pack under `prefix`.
pub fn read_manifest(target: &Target, prefix: &str) -> Result<PackManifest> {
    manifest_of(&Objects::open(target, prefix)?)
}

fn manifest_of(objects: &Objects) -> Result<PackManifest> {
    let bytes = objects
        .get(manifest::NAME, manifest::MAX_BYTES)?
        .ok_or_else(|| {
            Error::new(
                ErrorCode::FileNotFound,
                format!("no pack exists at {}", objects.place()),
            )
            .with_field("prefix")
        })?;
    parse_manifest(&bytes, objects.place())
}

/// Parses the manifest of the pack at `place`.
pub(super) fn parse_manifest(bytes: &[u8], place: impl Display) -> Result<PackManifest> {
    let damaged = |error| {
        let message = format!("manifest of the pack at {place} is damaged");
        Error::new(ErrorCode::InvalidArgument, message).with_source(error)
    };
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(damaged)?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    if format != Some(PackManifest::FORMAT.into()) {
        let format = format.map_or_else(|| "no format".into(), |format| format!("format {format}"));
        let message = format!(
            "pack at {place} has {format}, this program supports {}",
            PackManifest::FORMAT
        );
        return Err(Error::new(ErrorCode::InvalidArgument, message)
            .with_hint("use the version of sandbar that packed it"));
    }
    serde_json::from_value(value).map_err(damaged)
}

/// Unpacked volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    pub manifest: PackManifest,
    /// Number of entries and attributes that could not be created, for example a device without the
    /// permission to create one.
    pub omitted: u64,
    /// Descriptions of the first few of them.
    pub notes: Vec<String>,
}

/// Location of a pack, and what is known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackReference<'a> {
    pub prefix: &'a str,
    /// Session that was packed; another one is refused.
    pub session: Option<&'a SessionId>,
    /// [`PackManifest::fingerprint`] when it was packed; another pack is refused.
    pub fingerprint: Option<&'a str>,
}

impl<'a> From<&'a str> for PackReference<'a> {
    /// Refers to any pack at a prefix.
    fn from(prefix: &'a str) -> Self {
        Self {
            prefix,
            session: None,
            fingerprint: None,
        }
    }
}

impl PackReference<'_> {
    /// Refuses a pack that was copied, renamed or replaced in the object store.
    fn require(&self, found: &PackManifest, place: impl Display) -> Result<()> {
        let refuse = |why: String| {
            Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("pack at {place} {why}"),
            ))
        };
        if let Some(session) = self.session
            && *session != found.session
        {
            return refuse(format!(
                "belongs to session `{}`, not to `{session}`",
                found.session
            ));
        }
        if let Some(fingerprint) = self.fingerprint
            && fingerprint != found.fingerprint()
        {
            return refuse("is not the one that was written".into());
        }
        Ok(())
    }
}

/// Unpacks a pack to the volume `volume`, with its snapshots. The base must exist and have the same
/// fingerprint. A failure leaves no volume. Blocks; do not call it from an async task.
pub fn unpack<'a>(
    storage: &dyn Storage,
    target: &Target,
    from: impl Into<PackReference<'a>>,
    volume: &SessionId,
    quota: Option<ByteCount>,
) -> Result<Unpacked> {
    let from = from.into();
    let objects = Objects::open(target, from.prefix)?;
    let pack = manifest_of(&objects)?;
    from.require(&pack, objects.place())?;
    let found = fingerprint::of_base(storage, &pack.base).map_err(|error| match error.code() {
        ErrorCode::BaseNotFound => Error::new(
            ErrorCode::BaseNotFound,
            format!(
                "pack at {} needs base `{}`, which does not exist here",
                objects.place(),
                pack.base
            ),
        )
        .with_hint(format!(
            "import the same base first: `sandbar base import {} SOURCE`",
            pack.base
        )),
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
    storage.create(
        volume,
        &VolumeSpec {
            base: pack.base.clone(),
            quota,
        },
    )?;
    let applied = apply_all(storage, &objects, pack, volume);
    let unmounted = storage.unmount(volume);
    let unpacked = applied.and_then(|unpacked| unmounted.map(|()| unpacked));
    unpacked.inspect_err(|_| {
        if let Err(error) = storage.delete(volume) {
            tracing::warn!(error = error.chain(), %volume, "could not delete a half-unpacked volume");
        }
    })
}

fn apply_all(
    storage: &dyn Storage,
    objects: &Objects,
    manifest: PackManifest,
    volume: &SessionId,
) -> Result<Unpacked> {
    let root = storage.mount(volume)?;
    let mut unpacked = Unpacked {
        manifest,
        omitted: 0,
        notes: Vec::new(),
    };
    for step in &unpacked.manifest.steps {
        let root = File::open(&root)
            .map_err(|error| Error::io(format!("open `{}`", root.display()), error))?;
        let summary = apply(objects, step, root)?;
        unpacked.omitted += summary.omitted;
        unpacked.notes.extend(summary.notes);
        if let Some(snapshot) = &step.snapshot {
            storage.snapshot(volume, &snapshot.name)?;
        }
    }
    // Synced, because the pack may be deleted next.
    let synced = File::open(&root).and_then(|root| Ok(rustix::fs::syncfs(root)?));
    synced.map_err(|error| Error::io(format!("sync `{}` to disk", root.display()), error))?;
    Ok(unpacked)
}

fn apply(objects: &Objects, step: &PackStep, root: File) -> Result<UnpackSummary> {
    let (deleted, entries) = (objects.fetch(&step.deleted)?, objects.fetch(&step.entries)?);
    // Skip zeros: not every file system reports holes, and a sparse file written in full may exceed
    // the available space.
    let (directories, zeros) = (Directories::Replace, Zeros::Skip);
    // A session may have any number of names, of any depth; all are in the manifest.
    let headers = step.entry_count.saturating_mul(MAX_HEADER_BYTES);
    let limits = Limits {
        entries: step.entry_count,
        bytes: step.entry_bytes,
        stream: step
            .entry_bytes
            .saturating_add(headers)
            .saturating_add(MAX_HEADER_BYTES),
        ..Limits::NONE
    };
    let options = UnpackOptions {
        links: Links::Refuse,
        directories,
        zeros,
        devices: Devices::Make,
        limits,
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(root.into(), options);
    let mut paths = BufReader::new(decompress(deleted)?.take(step.deleted_bytes));
    let mut path = Vec::new();
    let failed = |error| Error::io("read the deleted paths of a pack", error);
    loop {
        path.clear();
        let read = (&mut paths)
            .take(MAX_PATH_BYTES)
            .read_until(0, &mut path)
            .map_err(failed)?;
        if read == 0 {
            break;
        }
        if path.pop() != Some(0) {
            let message = format!(
                "deleted path of the pack is cut short, or longer than {MAX_PATH_BYTES} bytes"
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        unpacker.remove(&path)?;
    }
    unpacker.unpack(&mut ArchiveReader::new(decompress(entries)?))?;
    Ok(unpacker.summary().clone())
}

/// Deletes a pack, or the remains of a failed one. A missing pack is success.
pub fn delete_pack(target: &Target, prefix: &str) -> Result<()> {
    let objects = Objects::open(target, prefix)?;
    // The manifest first: without it the pack does not exist, even if this call is interrupted.
    objects.delete(manifest::NAME)?;
    objects.delete_all()
}
