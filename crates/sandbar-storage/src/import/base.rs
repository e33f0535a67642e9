//! Building a base in a stage and committing it.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use jiff::Timestamp;
use sandbar_core::{BaseName, Error, Result};
use sandbar_oci::{
    ImageSettings, UnpackControl, UnpackedImage, unpack_docker_archive, unpack_layout,
};
use sandbar_tree::{
    CopyOptions, Fidelity, OverlayInternals, allocated,
    archive::{
        ArchiveReader, CheckedReader, Directories, EntryKind, Limits, Links, UnpackOptions,
        Unpacker, decompress, unpack_owner,
    },
    copy_tree, remove_tree,
};

use super::{
    host, skeleton,
    source::{at_source, helped},
};
use crate::{BaseLayer, BaseRecord, BaseSource, ImportSource, LayerDirectory, Storage};

/// Progress of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    pub entries: u64,
    pub bytes: u64,
    /// Total bytes to download, during the download of an image.
    pub total: Option<u64>,
}

/// Result of filling a root file system.
pub(super) struct Filled {
    pub(super) layers: Vec<BaseLayer>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) image: Option<ImageSettings>,
    pub(super) notes: Vec<String>,
    pub(super) omitted: u64,
}

impl Filled {
    /// Base without lent directories.
    pub(super) fn own(notes: Vec<String>, omitted: u64) -> Self {
        Self {
            layers: vec![own_layer()],
            env: BTreeMap::new(),
            image: None,
            notes,
            omitted,
        }
    }
}

impl From<UnpackedImage> for Filled {
    fn from(image: UnpackedImage) -> Self {
        Self {
            env: image.env,
            image: Some(image.settings),
            ..Self::own(image.notes, image.omitted)
        }
    }
}

pub(super) fn own_layer() -> BaseLayer {
    BaseLayer {
        mount_point: "/".into(),
        directory: LayerDirectory::Own,
    }
}

/// Fills an empty directory with the root of a `host` base, without a storage. Returns the
/// directories of the machine to mount read-only, and their mount points.
pub fn fill_host_root(rootfs: &Path) -> Result<Vec<BaseLayer>> {
    let filled = host::fill(Path::new("/"), rootfs)?;
    skeleton::complete(rootfs)?;
    Ok(filled.layers)
}

/// Imports the base `name` from `source`. A failure leaves nothing behind. For an ordinary user,
/// owners become the user's and devices are left out; omissions are logged.
pub fn import_base(
    storage: &dyn Storage,
    name: &BaseName,
    source: &ImportSource,
    progress: &dyn Fn(ImportProgress),
) -> Result<BaseRecord> {
    import_base_while(storage, name, source, progress, &|| Ok(()))
}

/// As [`import_base`]; `check` is called often, and its error ends the import.
pub fn import_base_while(
    storage: &dyn Storage,
    name: &BaseName,
    source: &ImportSource,
    progress: &dyn Fn(ImportProgress),
    check: &dyn Fn() -> Result<()>,
) -> Result<BaseRecord> {
    build(storage, name, source, progress, check).map_err(helped)
}

fn build(
    storage: &dyn Storage,
    name: &BaseName,
    source: &ImportSource,
    progress: &dyn Fn(ImportProgress),
    check: &dyn Fn() -> Result<()>,
) -> Result<BaseRecord> {
    let staged = storage.stage_base(name)?;
    let rootfs = staged.rootfs();
    let report = |entries: u64, bytes: u64| {
        progress(ImportProgress {
            entries,
            bytes,
            total: None,
        });
    };
    let control = UnpackControl {
        progress: &report,
        check,
    };
    let work = staged.directory().join("image");
    let (kind, filled) = match source {
        ImportSource::Host => (BaseSource::Host, host::fill(Path::new("/"), &rootfs)),
        ImportSource::Directory(path) => (BaseSource::Directory, directory(path, &rootfs, control)),
        ImportSource::Tar(path) => (BaseSource::Tar, tar(path, &rootfs, control)),
        ImportSource::OciLayout(path) => {
            let filled = unpack_layout(path, &rootfs, control).map(Filled::from);
            (BaseSource::OciLayout, filled)
        }
        ImportSource::OciArchive(path) => {
            let filled = unpack_image(path, &work, control)
                .and_then(|()| unpack_layout(&work, &rootfs, control))
                .map(Filled::from);
            (BaseSource::OciLayout, filled)
        }
        ImportSource::DockerArchive(path) => {
            let filled = unpack_image(path, &work, control)
                .and_then(|()| unpack_docker_archive(&work, &rootfs, control))
                .map(Filled::from);
            (BaseSource::DockerArchive, filled)
        }
    };
    let filled = filled.map_err(|error| at_source(error, &displayed(source)))?;
    remove_tree(&work)?;
    check()?;
    skeleton::complete(&rootfs)?;
    for note in &filled.notes {
        tracing::warn!(base = %name, "{note}");
    }
    if filled.omitted > filled.notes.len() as u64 {
        tracing::warn!(base = %name, count = filled.omitted, "more entries could not be imported exactly");
    }
    let record = BaseRecord {
        version: BaseRecord::VERSION,
        name: name.clone(),
        source: kind,
        created: Timestamp::now(),
        layers: filled.layers,
        env: filled.env,
        image: filled.image,
        size: allocated(&rootfs)?,
    };
    storage.commit_base(staged, &record)?;
    Ok(record)
}

fn displayed(source: &ImportSource) -> String {
    match source {
        ImportSource::Host => "host".into(),
        ImportSource::Directory(path)
        | ImportSource::Tar(path)
        | ImportSource::OciLayout(path)
        | ImportSource::OciArchive(path)
        | ImportSource::DockerArchive(path) => path.display().to_string(),
    }
}

fn directory(source: &Path, rootfs: &Path, control: UnpackControl<'_>) -> Result<Filled> {
    let options = CopyOptions {
        fidelity: Fidelity::BestEffort,
        overlay_internals: OverlayInternals::Drop,
        progress: control.progress,
        check: control.check,
    };
    let summary = copy_tree(source, rootfs, &options)?;
    Ok(Filled::own(summary.notes, summary.omitted))
}

fn tar(source: &Path, rootfs: &Path, control: UnpackControl<'_>) -> Result<Filled> {
    let options = UnpackOptions {
        links: Links::FollowInRoot,
        directories: Directories::Replace,
        owner: unpack_owner(),
        limits: Limits::BASE,
        progress: control.progress,
        check: control.check,
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(open(rootfs)?.into(), options);
    let stream = CheckedReader::new(decompress(open(source)?)?, control.check);
    unpacker.unpack(&mut ArchiveReader::new(stream))?;
    let summary = unpacker.summary();
    Ok(Filled::own(summary.notes.clone(), summary.omitted))
}

/// Unpacks the archive of an image, whose members are in no useful order, next to the root file
/// system. Pipes and devices are left out: nothing of an image is opened but regular files.
fn unpack_image(archive: &Path, work: &Path, control: UnpackControl<'_>) -> Result<()> {
    std::fs::create_dir(work)
        .map_err(|error| Error::io(format!("make directory `{}`", work.display()), error))?;
    let options = UnpackOptions {
        links: Links::Refuse,
        owner: unpack_owner(),
        limits: Limits::BASE,
        check: control.check,
        select: &|entry| {
            matches!(
                entry.kind,
                EntryKind::File
                    | EntryKind::Directory
                    | EntryKind::Symlink { .. }
                    | EntryKind::HardLink { .. }
            )
        },
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(open(work)?.into(), options);
    let stream = CheckedReader::new(decompress(open(archive)?)?, control.check);
    unpacker.unpack(&mut ArchiveReader::new(stream))
}

/// Opens a directory or regular file.
fn open(path: &Path) -> Result<File> {
    let complain = |error| Error::io(format!("open `{}`", path.display()), error);
    // A pipe would wait for a writer, if it has replaced the file since its type was detected.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(complain)?;
    let kind = file.metadata().map_err(complain)?.file_type();
    if kind.is_file() || kind.is_dir() {
        return Ok(file);
    }
    Err(Error::invalid(
        "source",
        format!("`{}` is neither a file nor a directory", path.display()),
    ))
}
