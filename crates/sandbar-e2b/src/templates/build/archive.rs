//! Reading the archive an SDK sent.

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
    let file = File::open(path).map_err(|error| Error::io("open what was sent", error))?;
    let mut reader = BufReader::new(file);
    let start = io::BufRead::fill_buf(&mut reader).map_err(unreadable)?;
    let packed = start.starts_with(&[0x1f, 0x8b]);
    Ok(Archive::new(if packed { Box::new(GzDecoder::new(reader)) } else { Box::new(reader) }))
}

pub(super) fn entries(archive: &mut ArchiveFile) -> Result<tar::Entries<'_, Box<dyn Read>>> {
    archive.entries().map_err(unreadable)
}

pub(super) fn mode_of(entry: &Entry<'_, impl Read>) -> Result<u32> {
    entry.header().mode().map(|mode| mode & 0o7777).map_err(unreadable)
}

pub(super) fn name_of(entry: &Entry<'_, impl Read>) -> Result<PathBuf> {
    plain(Path::new(OsStr::from_bytes(&entry.path_bytes())))
}

/// A name without `.`; one that leads upwards is none.
pub(super) fn plain(path: &Path) -> Result<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Error::invalid(
                    "args",
                    format!("what was sent has a name that leads out of it: `{}`", path.display()),
                ));
            }
        }
    }
    Ok(plain)
}

pub(super) fn unreadable(error: io::Error) -> Error {
    Error::invalid("args", "what was sent is no archive").with_source(error)
}

/// The directories of an archive below one of its names, also those that only files are in. What lies below a link of the
/// archive is left out: SDKs that walk through links pack the same files once more.
pub(super) fn directories(archive: &Path, below: &Path) -> Result<Directories> {
    let (mut found, mut links) = (Directories::new(), BTreeSet::new());
    let mut reader = open(archive)?;
    for entry in entries(&mut reader)? {
        let entry = entry.map_err(unreadable)?;
        let path = name_of(&entry)?;
        let Some(rest) = path.strip_prefix(below).ok().filter(|rest| !rest.as_os_str().is_empty()) else { continue };
        for above in rest.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            found.entry(above.to_owned()).or_default();
        }
        match entry.header().entry_type() {
            EntryType::Directory => drop(found.insert(rest.to_owned(), Some(mode_of(&entry)?))),
            EntryType::Symlink => drop(links.insert(rest.to_owned())),
            _ => {}
        }
    }
    found.retain(|name, _| !name.ancestors().any(|above| links.contains(above)));
    Ok(found)
}
