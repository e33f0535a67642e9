//! Building a base in a stage and committing it.

use std::{collections::BTreeMap, fs::File, path::Path};

use jiff::Timestamp;
use sandbar_core::{BaseName, Error, Result};
use sandbar_oci::{ImageSettings, UnpackedImage, unpack_docker_archive, unpack_layout};
use sandbar_tree::{
    CopyOptions, Fidelity, OverlayInternals, allocated,
    archive::{
        ArchiveReader, Directories, Links, UnpackOptions, Unpacker, decompress, unpack_owner,
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
    build(storage, name, source, progress).map_err(helped)
}

fn build(
    storage: &dyn Storage,
    name: &BaseName,
    source: &ImportSource,
    progress: &dyn Fn(ImportProgress),
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
    let work = staged.directory().join("image");
    let (kind, filled) = match source {
        ImportSource::Host => (BaseSource::Host, host::fill(Path::new("/"), &rootfs)),
        ImportSource::Directory(path) => (BaseSource::Directory, directory(path, &rootfs, &report)),
        ImportSource::Tar(path) => (BaseSource::Tar, tar(path, &rootfs, &report)),
        ImportSource::OciLayout(path) => {
            let filled = unpack_layout(path, &rootfs, &report).map(Filled::from);
            (BaseSource::OciLayout, filled)
        }
        ImportSource::OciArchive(path) => {
            let filled = unpack_image(path, &work)
                .and_then(|()| unpack_layout(&work, &rootfs, &report))
                .map(Filled::from);
            (BaseSource::OciLayout, filled)
        }
        ImportSource::DockerArchive(path) => {
            let filled = unpack_image(path, &work)
                .and_then(|()| unpack_docker_archive(&work, &rootfs, &report))
                .map(Filled::from);
            (BaseSource::DockerArchive, filled)
        }
    };
    let filled = filled.map_err(|error| at_source(error, &displayed(source)))?;
    remove_tree(&work)?;
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

fn directory(source: &Path, rootfs: &Path, progress: &dyn Fn(u64, u64)) -> Result<Filled> {
    let options = CopyOptions {
        fidelity: Fidelity::BestEffort,
        overlay_internals: OverlayInternals::Drop,
        progress,
    };
    let summary = copy_tree(source, rootfs, &options)?;
    Ok(Filled::own(summary.notes, summary.omitted))
}

fn tar(source: &Path, rootfs: &Path, progress: &dyn Fn(u64, u64)) -> Result<Filled> {
    let options = UnpackOptions {
        links: Links::FollowInRoot,
        directories: Directories::Replace,
        owner: unpack_owner(),
        progress,
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(open(rootfs)?.into(), options);
    unpacker.unpack(&mut ArchiveReader::new(decompress(open(source)?)?))?;
    let summary = unpacker.summary();
    Ok(Filled::own(summary.notes.clone(), summary.omitted))
}

/// Unpacks the archive of an image, whose members are in no useful order, next to the root file
/// system.
fn unpack_image(archive: &Path, work: &Path) -> Result<()> {
    std::fs::create_dir(work)
        .map_err(|error| Error::io(format!("make directory `{}`", work.display()), error))?;
    let options = UnpackOptions {
        links: Links::Refuse,
        owner: unpack_owner(),
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(open(work)?.into(), options);
    unpacker.unpack(&mut ArchiveReader::new(decompress(open(archive)?)?))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io(format!("open `{}`", path.display()), error))
}
