//! Objects as files of a directory.
//!
//! The directory may be shared with other programs, on a network file system. Everything below it
//! is resolved by descriptors without following links, only regular files are opened, and what is
//! created is closed to other users.

use std::{
    ffi::CString,
    fs::{DirBuilder, File},
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::Path,
};

use rustix::{
    fs::{self, AtFlags, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use sandbar_tree::{open_confined, remove_tree_at};

/// Suffix of a file that is being written.
const UNFINISHED: &str = "#unfinished";

/// Directory of an object store. Names are relative to it, without `.` and `..`.
#[derive(Debug)]
pub(super) struct ObjectDirectory {
    root: OwnedFd,
}

impl ObjectDirectory {
    /// Opens the directory, creating it with mode 0700 when missing.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let root = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(path)?;
        Ok(Self { root: root.into() })
    }

    fn resolve(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = if path.is_empty() { "." } else { path };
        Ok(open_confined(&self.root, path, flags, resolve)?)
    }

    fn parent<'a>(&self, name: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        let (parent, name) = name.rsplit_once('/').unwrap_or(("", name));
        Ok((
            self.resolve(parent, OFlags::RDONLY | OFlags::DIRECTORY)?,
            name,
        ))
    }

    /// Opens an object for reading.
    pub(super) fn read(&self, name: &str) -> io::Result<File> {
        let file = File::from(self.resolve(name, OFlags::RDONLY | OFlags::NONBLOCK)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("not a regular file"))
        }
    }

    /// Starts a new object.
    pub(super) fn create(&self, name: &str) -> io::Result<NewObject> {
        let mut end = 0;
        while let Some(slash) = name[end..].find('/') {
            let directory = &name[..end + slash];
            let (parent, last) = self.parent(directory)?;
            match fs::mkdirat(&parent, last, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            end += slash + 1;
        }
        let (parent, name) = self.parent(name)?;
        let unfinished = format!("{name}{UNFINISHED}");
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&parent, &unfinished, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(NewObject {
            file: file.into(),
            parent,
            unfinished,
            name: name.to_owned(),
        })
    }

    /// Deletes an object, and the directories above that are empty then. A missing one is success.
    pub(super) fn delete(&self, name: &str) -> io::Result<()> {
        let deleted = self
            .parent(name)
            .and_then(|(parent, last)| Ok(fs::unlinkat(&parent, last, AtFlags::empty())?));
        match deleted {
            Ok(()) => {}
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
        self.remove_empty_above(name);
        Ok(())
    }

    /// Deletes everything at and below a prefix. A symbolic link is deleted itself.
    pub(super) fn delete_all(&self, prefix: &str) -> io::Result<()> {
        match self.parent(prefix) {
            Ok((parent, name)) => remove_tree_at(&parent, &CString::new(name)?)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.remove_empty_above(prefix);
        Ok(())
    }

    fn remove_empty_above(&self, name: &str) {
        let mut path = name;
        while let Some((above, _)) = path.rsplit_once('/') {
            let removed = self
                .parent(above)
                .and_then(|(parent, last)| Ok(fs::unlinkat(&parent, last, AtFlags::REMOVEDIR)?));
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return,
                _ => path = above,
            }
        }
    }
}

/// Returns whether there is no such object: nothing is stored behind a link or below a file.
fn is_absent(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Object that exists under its name only after [`finish`](Self::finish).
#[derive(Debug)]
pub(super) struct NewObject {
    file: File,
    parent: OwnedFd,
    unfinished: String,
    name: String,
}

impl NewObject {
    /// Synced: a pack may be the only copy of a volume.
    pub(super) fn finish(self) -> io::Result<()> {
        let finish = || {
            self.file.sync_all()?;
            fs::renameat(&self.parent, &self.unfinished, &self.parent, &self.name)?;
            Ok(fs::fsync(&self.parent)?)
        };
        finish().inspect_err(|_| self.remove())
    }

    pub(super) fn abort(self) {
        self.remove();
    }

    fn remove(&self) {
        let _ = fs::unlinkat(&self.parent, &self.unfinished, AtFlags::empty());
    }
}

impl Write for NewObject {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::Read as _,
        os::unix::fs::{MetadataExt as _, symlink},
    };

    use rustix::fs::FileType;
    use sandbar_testing::tree::{make_node, scratch};

    use super::*;

    fn put(store: &ObjectDirectory, name: &str) -> io::Result<()> {
        let mut object = store.create(name)?;
        object.write_all(b"content")?;
        object.finish()
    }

    #[test]
    fn object_is_private_and_deleted_with_empty_directories() {
        let scratch = scratch();
        let store = ObjectDirectory::open(&scratch.path().join("store")).unwrap();
        put(&store, "a/b/c").unwrap();
        let path = scratch.path().join("store/a/b/c");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777,
            0o700
        );
        let mut text = String::new();
        store
            .read("a/b/c")
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "content");
        store.create("a/d").unwrap().abort();
        store.delete("a/b/c").unwrap();
        store.delete("a/b/c").unwrap();
        assert_eq!(
            fs::read_dir(scratch.path().join("store")).unwrap().count(),
            0
        );
    }

    #[test]
    fn links_below_the_store_are_never_followed() {
        let scratch = scratch();
        let outside = scratch.path().join("outside");
        fs::create_dir_all(outside.join("prefix")).unwrap();
        fs::write(outside.join("prefix/file"), "kept").unwrap();
        let path = scratch.path().join("store");
        let store = ObjectDirectory::open(&path).unwrap();
        symlink(&outside, path.join("link")).unwrap();
        fs::create_dir(path.join("own")).unwrap();
        symlink(outside.join("prefix"), path.join("own/inner")).unwrap();
        symlink(outside.join("prefix/file"), path.join("own/file")).unwrap();
        put(&store, "link/prefix/new").unwrap_err();
        store.read("link/prefix/file").unwrap_err();
        store.read("own/file").unwrap_err();
        store.delete("link/prefix/file").unwrap();
        store.delete_all("link/prefix").unwrap_err();
        store.delete_all("own").unwrap();
        store.delete_all("link").unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        assert_eq!(
            fs::read_to_string(outside.join("prefix/file")).unwrap(),
            "kept"
        );
        assert_eq!(fs::read_dir(outside.join("prefix")).unwrap().count(), 1);
    }

    #[test]
    fn pipe_in_place_of_an_object_is_refused() {
        let scratch = scratch();
        let store = ObjectDirectory::open(scratch.path()).unwrap();
        make_node(&scratch.path().join("pipe"), FileType::Fifo, 0, 0);
        store.read("pipe").unwrap_err();
        fs::create_dir(scratch.path().join("directory")).unwrap();
        store.read("directory").unwrap_err();
    }
}
