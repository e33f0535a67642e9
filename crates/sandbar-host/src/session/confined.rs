//! Paths of a session, reached by descriptors. Nothing here can lead out of the session's tree: every name goes through
//! `openat2` with the tree's root as `/`, so `..`, links and races end inside.

use std::{
    ffi::OsStr,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat, readlinkat},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, Result};
use sandbar_storage::open_confined;

/// Where relative paths start.
const WORKING_DIRECTORY: &str = "/workspace";

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// The mounted tree of a session.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
}

/// A place for a file: its directory, its name there, and what is there now.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    pub(super) name: PathBuf,
    pub(super) existing: Option<Stat>,
}

impl Tree {
    pub(super) fn open(root: &Path) -> Result<Self> {
        openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map(|root| Self { root })
            .map_err(|errno| Error::io(format!("open the tree at `{}`", root.display()), errno.into()))
    }

    /// Opens what `path` names; `flags` decide whether a link at its end is followed.
    pub(super) fn reach(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        self.raw(path, flags).map_err(|errno| failure(path, errno))
    }

    fn raw(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let below = path.strip_prefix("/").unwrap_or(path);
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        open_confined(&self.root, below, flags, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    }

    pub(super) fn directory(&self, path: &Path) -> Result<OwnedFd> {
        self.reach(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a directory, making it and those above it when they are missing.
    pub(super) fn make_directories(&self, path: &Path) -> Result<OwnedFd> {
        let mut so_far = PathBuf::from("/");
        for component in path.components() {
            match component {
                Component::Normal(name) => {
                    let parent = self.directory(&so_far)?;
                    so_far.push(name);
                    match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(failure(&so_far, errno)),
                    }
                }
                // Left to the kernel, which knows where links have led.
                Component::ParentDir => so_far.push(".."),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        self.directory(path)
    }

    /// Where a file named `path` would be written: the end of the links at its end, as a shell's `>` has it.
    pub(super) fn place(&self, path: &Path, create_directories: bool) -> Result<Place> {
        let mut current = path.to_owned();
        for _ in 0..MOST_LINKS {
            let (Some(parent), Some(name)) = (current.parent(), current.file_name()) else {
                return Err(is_a_directory(path));
            };
            let directory = if create_directories { self.make_directories(parent)? } else { self.directory(parent)? };
            let existing =
                match openat(&directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
                    Err(Errno::NOENT) => None,
                    Err(errno) => return Err(failure(path, errno)),
                    Ok(found) => Some(fstat(found).map_err(|errno| failure(path, errno))?),
                };
            match existing.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Some(FileType::Symlink) => {
                    let target = readlinkat(&directory, name, Vec::new()).map_err(|errno| failure(path, errno))?;
                    let target: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(target.as_bytes());
                    current = parent.join(target);
                }
                Some(FileType::Directory) => return Err(is_a_directory(path)),
                Some(FileType::RegularFile) | None => {
                    return Ok(Place { directory, name: PathBuf::from(name), existing });
                }
                Some(_) => {
                    return Err(Error::invalid("path", format!("`{}` is not a regular file", path.display()))
                        .with_hint("write to it from a command in the session"));
                }
            }
        }
        Err(failure(path, Errno::LOOP))
    }
}

/// The absolute path a caller means.
pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(Error::invalid("path", "the path is empty").with_hint("give a path inside the session"));
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Error::invalid("path", "the path contains NUL").with_hint("no file name can hold one"));
    }
    Ok(Path::new(WORKING_DIRECTORY).join(path))
}

pub(super) fn is_a_directory(path: &Path) -> Error {
    Error::invalid("path", format!("`{}` is a directory", path.display())).with_hint("name a file in it")
}

/// What the kernel's refusal means to a caller.
pub(super) fn failure(path: &Path, errno: Errno) -> Error {
    let shown = path.display();
    match errno {
        Errno::NOENT | Errno::NOTDIR => {
            Error::new(ErrorCode::FileNotFound, format!("`{shown}` does not exist in the session")).with_field("path")
        }
        Errno::LOOP => {
            Error::invalid("path", format!("`{shown}` leads through too many links, or through one of the kernel's"))
                .with_hint("name the file itself")
        }
        Errno::NAMETOOLONG => Error::invalid("path", format!("`{shown}` is too long")).with_hint("use a shorter path"),
        Errno::ISDIR => is_a_directory(path),
        errno => Error::io(format!("reach `{shown}` in the session"), errno.into()).with_field("path"),
    }
}
