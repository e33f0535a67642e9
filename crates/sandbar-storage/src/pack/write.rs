//! Packing a volume.

use std::{
    collections::BTreeSet,
    io::Write,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rustix::{
    fs::{self, CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use sandbar_core::{ChangeKind, Error, ErrorCode, Result, SessionId, SnapshotKind, SnapshotName};
use sandbar_tree::archive::{ArchiveWriter, WriteSummary};
use uuid::Uuid;

use super::{
    fingerprint,
    hard_links::regrouped,
    manifest::{self, PackManifest, PackObject, PackStep, PackedSnapshot},
    objects::{Objects, Upload},
    target::Target,
};
use crate::{ForkPoint, Storage, TreeView, diff, errors::path_too_long};

/// Fast enough for a network, with good compression.
const COMPRESSION_LEVEL: i32 = 3;

/// Packs a volume with its snapshots under `prefix`, where no pack may exist. The volume must not
/// change during the call. After a failure, uploaded objects are deleted. `kind_of` returns the
/// kind of a snapshot, which the storage does not record. Blocks; do not call it from an async
/// task.
pub fn pack(
    storage: &dyn Storage,
    volume: &SessionId,
    target: &Target,
    prefix: &str,
    kind_of: &dyn Fn(&SnapshotName) -> SnapshotKind,
) -> Result<PackManifest> {
    let objects = Objects::open(target, prefix)?;
    if objects.get(manifest::NAME, manifest::MAX_BYTES)?.is_some() {
        return Err(Error::invalid(
            "prefix",
            format!("pack at {} exists already", objects.place()),
        )
        .with_hint("choose another prefix, or delete that pack first"));
    }
    let mut packing = Packing {
        storage,
        volume,
        objects: &objects,
        id: Uuid::now_v7().simple().to_string(),
        names: Vec::new(),
    };
    packing.run(kind_of).inspect_err(|_| packing.undo())
}

struct Packing<'a> {
    storage: &'a dyn Storage,
    volume: &'a SessionId,
    objects: &'a Objects,
    /// Unique directory, so that objects of an interrupted attempt are never mixed in.
    id: String,
    names: Vec<String>,
}

impl Packing<'_> {
    fn run(&mut self, kind_of: &dyn Fn(&SnapshotName) -> SnapshotKind) -> Result<PackManifest> {
        let base = self.storage.volume_base(self.volume)?;
        let base_fingerprint = fingerprint::of_base(self.storage, &base)?;
        let mut before = self.storage.base_view(&base)?;
        let mut steps = Vec::new();
        for snapshot in self.storage.snapshots(self.volume)? {
            let kind = kind_of(&snapshot.name);
            let after = self
                .storage
                .view(self.volume, &ForkPoint::Snapshot(snapshot.name.clone()))?;
            let packed = PackedSnapshot {
                name: snapshot.name,
                kind,
                created: snapshot.created,
            };
            steps.push(self.step(steps.len(), Some(packed), &before, &after)?);
            before = after;
        }
        let now = self.storage.view(self.volume, &ForkPoint::Now)?;
        steps.push(self.step(steps.len(), None, &before, &now)?);
        let pack = PackManifest {
            format: PackManifest::FORMAT,
            created: Timestamp::now(),
            session: self.volume.clone(),
            base,
            base_fingerprint,
            steps,
        };
        let text = serde_json::to_vec_pretty(&pack)
            .map_err(|error| Error::internal("write the manifest of a pack").with_source(error))?;
        if text.len() as u64 > manifest::MAX_BYTES {
            let message = format!(
                "manifest of the pack would have {} bytes, more than the limit of {}",
                text.len(),
                manifest::MAX_BYTES
            );
            return Err(Error::new(ErrorCode::InvalidState, message)
                .with_hint("delete snapshots of the session that are not needed"));
        }
        self.names.push(manifest::NAME.to_owned());
        self.objects.put(manifest::NAME, text)?;
        Ok(pack)
    }

    fn step(
        &mut self,
        number: usize,
        snapshot: Option<PackedSnapshot>,
        before: &TreeView,
        after: &TreeView,
    ) -> Result<PackStep> {
        let difference = Difference::between(before, after)?;
        let mut deleted_bytes = 0;
        let deleted = self.object(&format!("{number:06}.deleted.zst"), |stream| {
            for path in &difference.deleted {
                let bytes = [path.as_os_str().as_bytes(), b"\0"].concat();
                deleted_bytes += bytes.len() as u64;
                stream
                    .write_all(&bytes)
                    .map_err(|error| Error::io("write the deleted paths of a pack", error))?;
            }
            Ok(())
        })?;
        let mut written = WriteSummary::default();
        let entries = self.object(&format!("{number:06}.tar.zst"), |stream| {
            let mut writer = ArchiveWriter::new(stream);
            let mut sources = Sources {
                view: after,
                last: None,
            };
            for path in &difference.changed {
                sources.append(path, Depth::Merged, &mut writer)?;
            }
            for path in &difference.regrouped {
                if sources.append(path, Depth::Own, &mut writer)?
                    && let Some(parent) = path.parent()
                {
                    sources.append(parent, Depth::Merged, &mut writer)?;
                }
            }
            (_, written) = writer.finish()?;
            Ok(())
        })?;
        Ok(PackStep {
            snapshot,
            deleted,
            deleted_bytes,
            entries,
            entry_count: written.entries,
            entry_bytes: written.bytes,
        })
    }

    /// Uploads the output of `fill`, compressed.
    fn object(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<PackObject> {
        let name = format!("{}/{name}", self.id);
        self.names.push(name.clone());
        let mut upload = self.objects.upload(&name)?;
        match compress(&mut upload, fill) {
            Ok(()) => upload.finish(),
            Err(error) => {
                upload.abort();
                Err(error)
            }
        }
    }

    fn undo(&self) {
        // The manifest first: without it the pack does not exist.
        for name in self.names.iter().rev() {
            if let Err(error) = self.objects.delete(name) {
                tracing::warn!(
                    error = error.chain(),
                    name,
                    "could not delete an object of a failed pack"
                );
            }
        }
    }
}

/// Changes of one step.
struct Difference {
    /// Topmost deleted paths.
    deleted: Vec<PathBuf>,
    changed: BTreeSet<PathBuf>,
    /// Paths whose hard links changed, if they exist.
    regrouped: BTreeSet<PathBuf>,
}

impl Difference {
    fn between(before: &TreeView, after: &TreeView) -> Result<Self> {
        let mut deleted: Vec<PathBuf> = Vec::new();
        let mut changed = BTreeSet::new();
        for entry in diff::between(before, after)? {
            let path = entry.change.path;
            if entry.change.kind == ChangeKind::Deleted
                && deleted.last().is_some_and(|last| path.starts_with(last))
            {
                continue;
            }
            // Creating an entry changes the time of its directory, which must be restored.
            changed.extend(path.parent().map(Path::to_owned));
            if entry.change.kind == ChangeKind::Deleted {
                deleted.push(path);
            } else {
                changed.insert(path);
            }
        }
        let mut regrouped = regrouped(before, after)?;
        regrouped.retain(|path| !changed.contains(path));
        Ok(Self {
            deleted,
            changed,
            regrouped,
        })
    }
}

/// Opens the files of a view on disk without following symbolic links, which a session controls.
struct Sources<'a> {
    view: &'a TreeView,
    last: Option<(PathBuf, OwnedFd)>,
}

impl Sources<'_> {
    /// Appends the entry at a path of the sandbox; `false` when it does not exist.
    fn append<W: Write>(
        &mut self,
        path: &Path,
        depth: Depth,
        writer: &mut ArchiveWriter<W>,
    ) -> Result<bool> {
        let archived_as = path.strip_prefix("/").unwrap_or(path);
        let archived_as = if archived_as.as_os_str().is_empty() {
            Path::new(".")
        } else {
            archived_as
        };
        let layers = self
            .view
            .layers
            .iter()
            .filter(|layer| path.starts_with(&layer.mount_point));
        let Some(layer) = layers.max_by_key(|layer| layer.mount_point.as_os_str().len()) else {
            return Ok(false);
        };
        let below = path.strip_prefix(&layer.mount_point).unwrap_or(path);
        let lower = layer.lower.iter().filter(|_| depth == Depth::Merged);
        // The upper layer first, as in overlayfs.
        for tree in layer.upper.iter().chain(lower) {
            let (directory, name) = match (below.parent(), below.file_name()) {
                (Some(parent), Some(name)) => (tree.join(parent), Path::new(name)),
                _ => (tree.clone(), Path::new(".")),
            };
            let opened = match self.directory(tree, &directory) {
                Ok(opened) => opened,
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(Errno::NAMETOOLONG) => return Err(path_too_long()),
                Err(errno) => {
                    return Err(Error::io(
                        format!("open `{}`", directory.display()),
                        errno.into(),
                    ));
                }
            };
            let found = writer.append_entry(opened.as_fd(), name, archived_as)?;
            self.last = Some((directory, opened));
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn directory(&mut self, tree: &Path, directory: &Path) -> Result<OwnedFd, Errno> {
        if let Some((_, opened)) = self.last.take_if(|(last, _)| last == directory) {
            return Ok(opened);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::openat(CWD, tree, flags, Mode::empty())?;
        let below = directory.strip_prefix(tree).unwrap_or(directory);
        if below.as_os_str().is_empty() {
            return Ok(root);
        }
        fs::openat2(
            &root,
            below,
            flags,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
    }
}

/// Layers to search for an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The session's own layer and the base.
    Merged,
    /// The session's own layer only.
    Own,
}

/// Writes the output of `fill` as one zstd frame.
fn compress(
    upload: &mut Upload<'_>,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let failed = |error| Error::io("compress a part of a pack", error);
    let mut stream = zstd::Encoder::new(upload, COMPRESSION_LEVEL).map_err(failed)?;
    fill(&mut stream)?;
    stream.finish().map(drop).map_err(failed)
}
