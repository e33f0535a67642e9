//! Confined resolution of entry paths: a name in an open directory below the root.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{self, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use sandbar_core::Error;

use super::{
    options::Links,
    unpacker::{failure, refused},
};
use crate::{archive::ArchiveEntry, confine::open_confined};

/// Longest path passed to one system call, below the kernel's `PATH_MAX` of 4096.
const MAX_PATH_BYTES: usize = 4000;

/// A name in an open directory.
#[derive(Debug)]
pub(in crate::archive) struct Place {
    pub(in crate::archive) parent: OwnedFd,
    pub(in crate::archive) name: CString,
    path: Vec<u8>,
}

/// Reason why a path cannot be resolved.
#[derive(Debug)]
pub(in crate::archive) enum PlaceError {
    Link,
    NotDirectory,
    Failed(Errno),
}

impl PlaceError {
    pub(in crate::archive) fn naming(self, entry: &ArchiveEntry) -> Error {
        match self {
            Self::Link => refused(entry, "passes through a symbolic link"),
            Self::NotDirectory => refused(entry, "lies below something that is not a directory"),
            Self::Failed(errno) => failure(entry, errno),
        }
    }

    fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::LOOP | Errno::XDEV => Self::Link,
            Errno::NOTDIR => Self::NotDirectory,
            errno => Self::Failed(errno),
        }
    }
}

/// Directory that everything is unpacked into.
#[derive(Debug)]
pub(in crate::archive) struct Root {
    directory: OwnedFd,
    resolve: ResolveFlags,
    /// Directory of the last entry, a cache: the next entry is mostly in the same one.
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl Root {
    pub(super) fn new(directory: OwnedFd, links: Links) -> Self {
        let resolve = match links {
            Links::FollowInRoot => ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
            Links::Refuse => {
                ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS
            }
        };
        Self {
            directory,
            resolve,
            last: None,
        }
    }

    /// Drops the cached directory, because a removal may have deleted it.
    pub(in crate::archive) fn forget(&mut self) {
        self.last = None;
    }

    /// Caches the directory for the next entry.
    pub(super) fn give_back(&mut self, place: Place) {
        if let Some((parent, _)) = split(&place.path) {
            self.last = Some((parent.to_vec(), place.parent));
        }
    }

    /// Resolves a path, creating missing parent directories.
    pub(super) fn place(&mut self, path: &[u8]) -> Result<Place, PlaceError> {
        self.find(path, true)
    }

    /// Resolves a path whose parent directory exists.
    pub(in crate::archive) fn open_place(&mut self, path: &[u8]) -> Result<Place, PlaceError> {
        self.find(path, false)
    }

    fn find(&mut self, path: &[u8], make: bool) -> Result<Place, PlaceError> {
        let (parent, name) = split(path).unwrap_or((b"", path));
        let name = CString::new(name).map_err(|_| PlaceError::Failed(Errno::INVAL))?;
        let parent = match self.last.take_if(|(last, _)| last == parent) {
            Some((_, directory)) => directory,
            None if make => self.make_directories(parent)?,
            None => self
                .open_directory(parent)
                .map_err(PlaceError::from_errno)?,
        };
        Ok(Place {
            parent,
            name,
            path: path.to_vec(),
        })
    }

    /// Opens a directory below the root; its last component must not be a symbolic link.
    pub(in crate::archive) fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::RDONLY | OFlags::NOFOLLOW)
    }

    fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut rest = path;
        let mut directory = None;
        let mut resolve = self.resolve;
        while rest.len() > MAX_PATH_BYTES {
            let cut = rest[..MAX_PATH_BYTES]
                .iter()
                .rposition(|byte| *byte == b'/')
                .ok_or(Errno::NAMETOOLONG)?;
            let from = directory.as_ref().unwrap_or(&self.directory);
            directory = Some(open_confined(from, &rest[..cut], flags, resolve)?);
            rest = &rest[cut + 1..];
            // Symbolic links would be resolved with this directory as `/`, not the root: refuse
            // them.
            resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        }
        let rest = if rest.is_empty() { b"." } else { rest };
        open_confined(
            directory.as_ref().unwrap_or(&self.directory),
            rest,
            flags,
            resolve,
        )
    }

    fn make_directories(&self, path: &[u8]) -> Result<OwnedFd, PlaceError> {
        let failed = PlaceError::from_errno;
        match self.open(path, OFlags::RDONLY) {
            Ok(directory) => return Ok(directory),
            Err(Errno::NOENT) if !path.is_empty() => {}
            Err(errno) => return Err(failed(errno)),
        }
        // The longest prefix that exists, by bisection: trying one after the other would cost the
        // square of the depth.
        let ends: Vec<usize> = (0..path.len()).filter(|at| path[*at] == b'/').collect();
        let prefix = |count: usize| {
            count
                .checked_sub(1)
                .map_or(&b""[..], |at| &path[..ends[at]])
        };
        let mut directory = self.open(b"", OFlags::RDONLY).map_err(failed)?;
        let (mut there, mut missing) = (0, ends.len() + 1);
        while missing - there > 1 {
            let middle = there.midpoint(missing);
            match self.open(prefix(middle), OFlags::RDONLY) {
                Ok(opened) => (directory, there) = (opened, middle),
                Err(Errno::NOENT) => missing = middle,
                Err(errno) => return Err(failed(errno)),
            }
        }
        let rest = ends
            .get(there.wrapping_sub(1))
            .map_or(path, |end| &path[end + 1..]);
        for name in rest.split(|byte| *byte == b'/') {
            let name = CString::new(name).map_err(|_| PlaceError::Failed(Errno::INVAL))?;
            directory = make_directory(&directory, &name)?;
        }
        Ok(directory)
    }
}

/// Creates a parent directory that the archive did not list.
fn make_directory(parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, PlaceError> {
    match fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        // A dangling symbolic link: a directory would have been opened.
        Err(Errno::EXIST) => return Err(PlaceError::Link),
        Err(errno) => return Err(PlaceError::Failed(errno)),
        Ok(()) => {}
    }
    let made =
        crate::descent::open_directory(parent.as_fd(), name).map_err(PlaceError::from_errno)?;
    fs::fchmod(&made, Mode::from_raw_mode(0o755)).map_err(PlaceError::Failed)?;
    Ok(made)
}

fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    path.iter()
        .rposition(|byte| *byte == b'/')
        .map(|slash| (&path[..slash], &path[slash + 1..]))
}

/// Normalises a path: relative to the root, without empty and `.` components; empty for the root.
/// The error is a phrase that continues "archive entry `x`".
pub(in crate::archive) fn normal_path(path: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::with_capacity(path.len());
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err("contains `..`"),
            part if part.contains(&0) => return Err("contains a zero byte"),
            part => {
                if !out.is_empty() {
                    out.push(b'/');
                }
                out.extend_from_slice(part);
            }
        }
    }
    Ok(out)
}
