//! Building a base in a stage and committing it.

use std::{collections::BTreeMap, fs::File, path::Path};

use jiff::Timestamp;
use rustix::process::geteuid;
use sandbar_core::{BaseName, Error, Result};

use super::{
    docker, host, oci, skeleton,
    source::{at_source, helped},
};
use crate::{
    BaseLayer, BaseRecord, BaseSource, CopyOptions, Fidelity, ImageSettings, ImportSource, LayerDirectory,
    OverlayInternals, Storage,
    archive::{ArchiveReader, Directories, Links, UnpackOptions, Unpacker, decompress},
    copy_tree, remove_tree,
    tree_usage::allocated,
};

/// How far an import has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    pub entries: u64,
    pub bytes: u64,
    /// Bytes to fetch in all, while an image is fetched.
    pub total: Option<u64>,
}

/// What filling a root file system came to.
pub(super) struct Filled {
    pub(super) layers: Vec<BaseLayer>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) image: Option<ImageSettings>,
    pub(super) notes: Vec<String>,
    pub(super) omitted: u64,
}

impl Filled {
    /// A base whose files are all its own.
    pub(super) fn own(notes: Vec<String>, omitted: u64) -> Self {
        Self { layers: vec![own_layer()], env: BTreeMap::new(), image: None, notes, omitted }
    }
}

pub(super) fn own_layer() -> BaseLayer {
    BaseLayer { mount_point: "/".into(), directory: LayerDirectory::Own }
}

/// Fills an empty directory with a root like that of a base from this machine, without a storage. The layers say which
/// directories of the machine are to be shown where, read-only.
pub fn fill_host_root(rootfs: &Path) -> Result<Vec<BaseLayer>> {
    let filled = host::fill(Path::new("/"), rootfs)?;
    skeleton::complete(rootfs)?;
    Ok(filled.layers)
}

/// Makes the base `name` from `source`. Whatever fails, nothing is left behind. As an ordinary user owners stay the
/// caller's and devices are left out; what could not be kept is logged.
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
    let report = |entries: u64, bytes: u64| progress(ImportProgress { entries, bytes, total: None });
    let work = staged.directory().join("image");
    let (kind, filled) = match source {
        ImportSource::Host => (BaseSource::Host, host::fill(Path::new("/"), &rootfs)),
        ImportSource::Directory(path) => (BaseSource::Directory, directory(path, &rootfs, &report)),
        ImportSource::Tar(path) => (BaseSource::Tar, tar(path, &rootfs, &report)),
        ImportSource::OciLayout(path) => (BaseSource::OciLayout, oci::fill(path, &rootfs, &report)),
        ImportSource::OciArchive(path) => {
            let filled = unpack_image(path, &work).and_then(|()| oci::fill(&work, &rootfs, &report));
            (BaseSource::OciLayout, filled)
        }
        ImportSource::DockerArchive(path) => {
            let filled = unpack_image(path, &work).and_then(|()| docker::fill(&work, &rootfs, &report));
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
        tracing::warn!(base = %name, count = filled.omitted, "more could not be kept");
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
    let options = CopyOptions { fidelity: Fidelity::BestEffort, overlay_internals: OverlayInternals::Drop, progress };
    let summary = copy_tree(source, rootfs, &options)?;
    Ok(Filled::own(summary.notes, summary.omitted))
}

fn tar(source: &Path, rootfs: &Path, progress: &dyn Fn(u64, u64)) -> Result<Filled> {
    let options = UnpackOptions {
        links: Links::FollowInRoot,
        directories: Directories::Replace,
        owner: owner(),
        progress,
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(open(rootfs)?.into(), options);
    unpacker.unpack(&mut ArchiveReader::new(decompress(open(source)?)?))?;
    let summary = unpacker.summary();
    Ok(Filled::own(summary.notes.clone(), summary.omitted))
}

/// Unpacks the parts of an image, which come in no useful order, beside the root file system.
fn unpack_image(archive: &Path, work: &Path) -> Result<()> {
    std::fs::create_dir(work).map_err(|error| Error::io(format!("make directory `{}`", work.display()), error))?;
    let options = UnpackOptions { links: Links::Refuse, owner: owner(), ..UnpackOptions::CAREFUL };
    let mut unpacker = Unpacker::new(open(work)?.into(), options);
    unpacker.unpack(&mut ArchiveReader::new(decompress(open(archive)?)?))
}

/// An ordinary user can give files to nobody else: asking for it only makes notes.
pub(super) fn owner() -> Option<(u32, u32)> {
    let user = geteuid();
    (!user.is_root()).then(|| (user.as_raw(), rustix::process::getegid().as_raw()))
}

pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io(format!("open `{}`", path.display()), error))
}
