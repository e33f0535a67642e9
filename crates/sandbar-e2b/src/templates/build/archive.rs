//! Reading an uploaded archive.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::File,
    io::Read,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use sandbar_core::{Error, Result};
use sandbar_tree::archive::{
    ArchiveEntry, ArchiveReader, CheckedReader, EntryKind, Limits, decompress,
};

use super::merge::Directories;

/// Limits of an upload. Its names are kept in the host's memory, and each directory costs a call.
const LIMITS: Limits = Limits {
    entries: 500_000,
    bytes: 64 << 30,
    stream: 72 << 30,
    names: 64 << 20,
    depth: 256,
    ..Limits::DEFAULT
};
const MAX_DIRECTORIES: usize = 50_000;
/// Limit on one path, that of the kernel.
const MAX_PATH_BYTES: usize = 4096;

/// Uploaded archive, read entry by entry.
pub(super) struct UploadedArchive<'a> {
    reader: ArchiveReader<CheckedReader<'a, Box<dyn Read>>>,
    entries: u64,
    bytes: u64,
}

impl<'a> UploadedArchive<'a> {
    /// Opens an archive. `check` is called often, and its error ends the work.
    pub(super) fn open(path: &Path, check: &'a dyn Fn() -> Result<()>) -> Result<Self> {
        let file =
            File::open(path).map_err(|error| Error::io("open the uploaded archive", error))?;
        let stream: Box<dyn Read> = decompress(file).map_err(unreadable)?;
        let reader = ArchiveReader::new(CheckedReader::new(stream, check)).with_limits(LIMITS);
        Ok(Self {
            reader,
            entries: 0,
            bytes: 0,
        })
    }

    /// Returns the next entry and its path.
    pub(super) fn next(&mut self) -> Result<Option<(ArchiveEntry, PathBuf)>> {
        let Some(entry) = self.reader.next_entry().map_err(unreadable)? else {
            return Ok(None);
        };
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(entry.data_size());
        if self.entries > LIMITS.entries {
            return Err(too_much(&format!("{} entries", LIMITS.entries)));
        }
        if self.bytes > LIMITS.bytes {
            return Err(too_much(&format!("{} bytes", LIMITS.bytes)));
        }
        let path = plain(&entry.path)?;
        Ok(Some((entry, path)))
    }

    /// Returns a reader of the data of the current entry.
    pub(super) fn data(&mut self) -> EntryData<'_, 'a> {
        EntryData(&mut self.reader)
    }
}

/// Data of one entry.
pub(super) struct EntryData<'r, 'a>(&'r mut ArchiveReader<CheckedReader<'a, Box<dyn Read>>>);

impl Read for EntryData<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_data(buffer).map_err(std::io::Error::other)
    }
}

/// Normalises a name in an archive. Fails if it is absolute, contains `..`, or is too long or deep.
pub(super) fn plain(name: &[u8]) -> Result<PathBuf> {
    let refuse = |why: &str| {
        let shown = name[..name.len().min(100)].escape_ascii();
        Err(Error::invalid(
            "args",
            format!("uploaded archive contains a path {why}: `{shown}`"),
        ))
    };
    if name.len() > MAX_PATH_BYTES {
        return refuse(&format!("of more than {MAX_PATH_BYTES} bytes"));
    }
    if name.contains(&0) {
        return refuse("with a zero byte");
    }
    let mut plain = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(name)).components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return refuse("outside of it");
            }
        }
    }
    if plain.components().count() as u64 > LIMITS.depth {
        return refuse(&format!("of more than {} levels", LIMITS.depth));
    }
    Ok(plain)
}

fn too_much(what: &str) -> Error {
    Error::invalid("args", format!("uploaded archive holds more than {what}"))
        .with_hint("copy less, or ignore files")
}

fn unreadable(error: Error) -> Error {
    if error.code() != sandbar_core::ErrorCode::InvalidArgument {
        return error;
    }
    Error::invalid(
        "args",
        "uploaded file is not a tar archive that can be copied",
    )
    .with_source(error)
}

/// Returns the directories of an archive below a path, including those implied by files. Entries
/// below a symbolic link are left out: SDKs that follow links pack the same files twice.
pub(super) fn directories(
    archive: &Path,
    below: &Path,
    check: &dyn Fn() -> Result<()>,
) -> Result<Directories> {
    let (mut found, mut links) = (Directories::new(), BTreeSet::new());
    let mut archive = UploadedArchive::open(archive, check)?;
    while let Some((entry, path)) = archive.next()? {
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
            // Those above a known one are known.
            if found.contains_key(ancestor) {
                break;
            }
            found.insert(ancestor.to_owned(), None);
        }
        match entry.kind {
            EntryKind::Directory => drop(found.insert(rest.to_owned(), Some(entry.mode))),
            EntryKind::Symlink { .. } => drop(links.insert(rest.to_owned())),
            _ => {}
        }
        if found.len() > MAX_DIRECTORIES {
            return Err(too_much(&format!("{MAX_DIRECTORIES} directories")));
        }
    }
    found.retain(|name, _| !name.ancestors().any(|ancestor| links.contains(ancestor)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn archive(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut stream = GzEncoder::new(&mut file, Compression::best());
        stream.write_all(bytes).unwrap();
        stream.finish().unwrap();
        file
    }

    fn header(kind: tar::EntryType, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_path("file").unwrap();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        header
    }

    fn refusal(bytes: &[u8]) -> String {
        let file = archive(bytes);
        let error = directories(file.path(), Path::new(""), &|| Ok(())).unwrap_err();
        error.chain()
    }

    #[test]
    fn long_name_of_gigabytes_is_refused_at_its_header() {
        // The name would be read into memory as a whole.
        let header = header(tar::EntryType::GNULongName, 8 << 30);
        let why = refusal(header.as_bytes());
        assert!(why.contains("8 MiB"), "{why}");
    }

    #[test]
    fn path_too_long_or_too_deep_is_refused() {
        let named = |name: &str| {
            let mut builder = tar::Builder::new(Vec::new());
            builder
                .append_data(
                    &mut header(tar::EntryType::Regular, 0),
                    name,
                    std::io::empty(),
                )
                .unwrap();
            builder.into_inner().unwrap()
        };
        let why = refusal(&named(&format!("{}x", "d/".repeat(300))));
        assert!(why.contains("256 levels"), "{why}");
        let why = refusal(&named(&format!("{}/x", "d".repeat(5000))));
        assert!(why.contains("4096 bytes"), "{why}");
        assert!(why.len() < 300, "{why}");
        assert!(plain(b"a\0b").is_err());
    }

    #[test]
    fn directories_implied_by_files_are_found_once() {
        let mut builder = tar::Builder::new(Vec::new());
        for name in ["a/b/c/1", "a/b/c/2", "a/x"] {
            builder
                .append_data(
                    &mut header(tar::EntryType::Regular, 0),
                    name,
                    std::io::empty(),
                )
                .unwrap();
        }
        let file = archive(&builder.into_inner().unwrap());
        let found = directories(file.path(), Path::new("a"), &|| Ok(())).unwrap();
        let names: Vec<_> = found
            .keys()
            .map(|name| name.display().to_string())
            .collect();
        assert_eq!(names, ["b", "b/c"]);
    }

    #[test]
    fn check_ends_the_reading_of_an_archive() {
        let file = archive(
            &[
                header(tar::EntryType::new(b'Z'), 1 << 30)
                    .as_bytes()
                    .as_slice(),
                vec![7; 1 << 20].as_slice(),
            ]
            .concat(),
        );
        let calls = std::cell::Cell::new(0);
        let check = || {
            calls.set(calls.get() + 1);
            if calls.get() > 5 {
                return Err(Error::new(sandbar_core::ErrorCode::Unavailable, "gone"));
            }
            Ok(())
        };
        let error = directories(file.path(), Path::new(""), &check).unwrap_err();
        assert_eq!(error.message(), "gone");
    }
}
