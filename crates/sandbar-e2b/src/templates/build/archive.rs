//! Reading an uploaded archive.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::File,
    io::{self, BufReader, Read},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use flate2::bufread::GzDecoder;
use sandbar_core::{Error, Result};
use tar::{Archive, Entry, EntryType};

use super::merge::Directories;

pub(super) type ArchiveFile = Archive<Box<dyn Read>>;

pub(super) fn open(path: &Path) -> Result<ArchiveFile> {
    let file = File::open(path).map_err(|error| Error::io("open the uploaded archive", error))?;
    let mut reader = BufReader::new(file);
    let start = io::BufRead::fill_buf(&mut reader).map_err(unreadable)?;
    let packed = start.starts_with(&[0x1f, 0x8b]);
    Ok(Archive::new(if packed {
        Box::new(GzDecoder::new(reader))
    } else {
        Box::new(reader)
    }))
}

pub(super) fn entries(archive: &mut ArchiveFile) -> Result<tar::Entries<'_, Box<dyn Read>>> {
    archive.entries().map_err(unreadable)
}

pub(super) fn mode_of(entry: &Entry<'_, impl Read>) -> Result<u32> {
    entry
        .header()
        .mode()
        .map(|mode| mode & 0o7777)
        .map_err(unreadable)
}

pub(super) fn name_of(entry: &Entry<'_, impl Read>) -> Result<PathBuf> {
    plain(Path::new(OsStr::from_bytes(&entry.path_bytes())))
}

/// Normalises a name in an archive. Fails if it is absolute or contains `..`.
pub(super) fn plain(path: &Path) -> Result<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Error::invalid(
                    "args",
                    format!(
                        "uploaded archive contains a path outside of it: `{}`",
                        path.display()
                    ),
                ));
            }
        }
    }
    Ok(plain)
}

pub(super) fn unreadable(error: io::Error) -> Error {
    Error::invalid("args", "uploaded file is not a tar archive").with_source(error)
}

/// Returns the directories of an archive below a path, including those implied by files. Entries
/// below a symbolic link are left out: SDKs that follow links pack the same files twice.
pub(super) fn directories(archive: &Path, below: &Path) -> Result<Directories> {
    let (mut found, mut links) = (Directories::new(), BTreeSet::new());
    let mut reader = open(archive)?;
    for entry in entries(&mut reader)? {
        let entry = entry.map_err(unreadable)?;
        let path = name_of(&entry)?;
        let Some(rest) = path
            .strip_prefix(below)
            .ok()
            .filter(|rest| !rest.as_os_str().is_empty())
        else {
            continue;
        };
        for ancestor in rest
            .ancestors()
            .skip(1)
            .filter(|ancestor| !ancestor.as_os_str().is_empty())
        {
            found.entry(ancestor.to_owned()).or_default();
        }
        match entry.header().entry_type() {
            EntryType::Directory => drop(found.insert(rest.to_owned(), Some(mode_of(&entry)?))),
            EntryType::Symlink => drop(links.insert(rest.to_owned())),
            _ => {}
        }
    }
    found.retain(|name, _| !name.ancestors().any(|ancestor| links.contains(ancestor)));
    Ok(found)
}
