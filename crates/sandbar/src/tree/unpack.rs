//! A tar stream as files of this machine, below one directory and nowhere else.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, fchmod, futimens, linkat, mkdirat,
        mknodat, openat, openat2, symlinkat, unlinkat,
    },
    io::Errno,
};
use sandbar_core::{Error, Result};
use tar::{Archive, Entry, EntryType};

/// Unpacks a stream whose names all start with one name. That first name becomes `name`, or is left out and what is in it
/// lands in `directory` itself. Existing files are replaced, existing directories are filled. Links are made, never
/// followed.
pub(crate) fn unpack(stream: impl Read, directory: &Path, name: Option<&OsString>) -> Result<()> {
    let complain = |error: Errno| Error::io(format!("could not open `{}`", directory.display()), error.into());
    let root =
        openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(complain)?;
    let broken = |error| Error::io("could not read the stream of files", error);
    let mut directories = Vec::new();
    for entry in Archive::new(stream).entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = renamed(&entry.path().map_err(broken)?, name)?;
        if path.as_os_str().is_empty() {
            continue;
        }
        let place = Place { root: &root, path: &path, name };
        place
            .make(&mut entry)
            .map_err(|error| Error::io(format!("could not write `{}`", directory.join(&path).display()), error))?;
        if entry.header().entry_type() == EntryType::Directory {
            directories.push((path, entry.header().mode().unwrap_or(0o755), entry.header().mtime().unwrap_or(0)));
        }
    }
    // Deepest first: a directory that cannot be written gets its mode when nothing more goes into it.
    for (path, mode, modified) in directories.into_iter().rev() {
        let finish = || -> io::Result<()> {
            let directory = beneath(&root, &path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            fchmod(&directory, Mode::from_raw_mode(mode & 0o1777))?;
            set_time(&directory, modified)
        };
        finish()
            .map_err(|error| Error::io(format!("could not finish `{}`", directory.join(&path).display()), error))?;
    }
    Ok(())
}

/// `first/rest` under its new first name. Names that lead anywhere else are refused.
fn renamed(path: &Path, name: Option<&OsString>) -> Result<PathBuf> {
    let mut components = path.components().filter(|component| !matches!(component, Component::CurDir));
    let mut target = PathBuf::new();
    match (components.next(), name) {
        (Some(Component::Normal(_)), Some(name)) => target.push(name),
        (Some(Component::Normal(_)) | None, None) | (None, Some(_)) => {}
        _ => return Err(leads_out(path)),
    }
    for component in components {
        match component {
            Component::Normal(part) => target.push(part),
            _ => return Err(leads_out(path)),
        }
    }
    Ok(target)
}

fn leads_out(path: &Path) -> Error {
    Error::invalid("path", format!("the stream names `{}`, which leads out of its directory", path.display()))
        .with_hint("do not trust this sandbox: something in it made that name")
}

struct Place<'a> {
    root: &'a OwnedFd,
    path: &'a Path,
    name: Option<&'a OsString>,
}

impl Place<'_> {
    fn make(&self, entry: &mut Entry<'_, impl Read>) -> io::Result<()> {
        let (parent, name) = self.parent(self.path)?;
        let mode = Mode::from_raw_mode(entry.header().mode()? & 0o777);
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory {
            return match mkdirat(&parent, name.as_path(), Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {
                    Ok(beneath(self.root, self.path, OFlags::PATH | OFlags::DIRECTORY).map(drop)?)
                }
                Err(error) => Err(error.into()),
            };
        }
        match unlinkat(&parent, name.as_path(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match kind {
            EntryType::Symlink => {
                let target = entry.link_name()?.ok_or(io::ErrorKind::InvalidData)?;
                Ok(symlinkat(target.as_os_str().as_bytes(), &parent, name.as_path())?)
            }
            EntryType::Link => {
                let target = entry.link_name()?.ok_or(io::ErrorKind::InvalidData)?.into_owned();
                let (target_parent, target_name) =
                    self.parent(&renamed(&target, self.name).map_err(io::Error::other)?)?;
                Ok(linkat(&target_parent, target_name.as_path(), &parent, name.as_path(), AtFlags::empty())?)
            }
            EntryType::Fifo => Ok(mknodat(&parent, name.as_path(), FileType::Fifo, mode, 0)?),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut file = File::from(openat(&parent, name.as_path(), flags, Mode::RUSR | Mode::WUSR)?);
                io::copy(entry, &mut file)?;
                fchmod(&file, mode)?;
                set_time(&file, entry.header().mtime()?)
            }
            // Devices of a sandbox are not made here, and sockets mean nothing here.
            _ => Ok(()),
        }
    }

    /// The directory an entry goes into, and its name there.
    fn parent(&self, path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((beneath(self.root, parent, OFlags::PATH | OFlags::DIRECTORY)?, name.into()))
    }
}

/// Opens a path below the root without following a single link.
fn beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

fn set_time(file: impl AsFd, seconds: u64) -> io::Result<()> {
    let time = Timespec { tv_sec: i64::try_from(seconds).unwrap_or(0), tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(futimens(file, &times)?)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use tar::{Builder, Header};

    use super::*;
    use crate::tree::pack::{TopLevel, pack};

    fn scratch() -> tempfile::TempDir {
        tempfile::Builder::new().prefix("sandbar-test-").tempdir_in("/var/tmp").unwrap()
    }

    /// A stream with one entry whose name no honest packer would write.
    fn crooked(name: &str, kind: EntryType, target: &str) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(0);
        header.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        let mut builder = Builder::new(Vec::new());
        builder.append(&header, io::empty()).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn a_tree_survives_packing_and_unpacking_under_a_new_name() {
        let (from, to) = (scratch(), scratch());
        let source = from.path().join("source");
        fs::create_dir_all(source.join("deep/er")).unwrap();
        fs::write(source.join("deep/file"), "content").unwrap();
        fs::set_permissions(source.join("deep/file"), fs::Permissions::from_mode(0o750)).unwrap();
        fs::hard_link(source.join("deep/file"), source.join("twin")).unwrap();
        std::os::unix::fs::symlink("deep/file", source.join("link")).unwrap();
        fs::write(source.join(std::ffi::OsStr::from_bytes(b"new\nline\xff")), "odd").unwrap();
        fs::set_permissions(source.join("deep/er"), fs::Permissions::from_mode(0o500)).unwrap();
        let mut stream = Vec::new();
        pack(&source, &TopLevel::Named("x".into()), &mut stream).unwrap();
        unpack(stream.as_slice(), to.path(), Some(&"copy".into())).unwrap();
        let copy = to.path().join("copy");
        assert_eq!(fs::read_to_string(copy.join("deep/file")).unwrap(), "content");
        assert_eq!(fs::metadata(copy.join("deep/file")).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(std::os::unix::fs::MetadataExt::nlink(&fs::metadata(copy.join("twin")).unwrap()), 2);
        assert_eq!(fs::read_link(copy.join("link")).unwrap(), Path::new("deep/file"));
        assert_eq!(fs::read_to_string(copy.join(std::ffi::OsStr::from_bytes(b"new\nline\xff"))).unwrap(), "odd");
        assert_eq!(fs::metadata(copy.join("deep/er")).unwrap().permissions().mode() & 0o777, 0o500);
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        let to = scratch();
        for name in ["a/../../outside", "/outside", "../outside", ".."] {
            let stream = crooked(name, EntryType::Regular, "");
            assert!(unpack(stream.as_slice(), to.path(), Some(&"x".into())).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_the_stream_is_never_followed() {
        let (to, outside) = (scratch(), scratch());
        let mut stream = crooked("a", EntryType::Directory, "");
        stream.truncate(512);
        let mut link = crooked("a/door", EntryType::Symlink, outside.path().to_str().unwrap());
        link.truncate(512);
        stream.extend(link);
        stream.extend(crooked("a/door/planted", EntryType::Regular, ""));
        assert!(unpack(stream.as_slice(), to.path(), Some(&"a".into())).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_hard_link_to_a_file_outside_is_refused() {
        let to = scratch();
        for target in ["/etc/hostname", "../../etc/hostname"] {
            let stream = crooked("a/stolen", EntryType::Link, target);
            fs::create_dir_all(to.path().join("a")).unwrap();
            assert!(unpack(stream.as_slice(), to.path(), Some(&"a".into())).is_err(), "{target}");
        }
    }
}
