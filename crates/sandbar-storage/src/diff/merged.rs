//! Merged tree of one mount point: upper and lower layer as overlayfs would show them.

use std::{
    ffi::{CStr, CString},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
};
use sandbar_core::{Error, Result};
use sandbar_tree::{
    descent::{EntryStat, Identity, names},
    xattrs::XattrTarget,
};

use crate::{ViewLayer, errors::path_too_long};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Root of a merged tree.
#[derive(Debug)]
pub(super) struct Merged {
    upper: Option<Root>,
    lower: Option<Root>,
}

#[derive(Debug)]
struct Root {
    fd: OwnedFd,
    path: PathBuf,
    identity: Identity,
}

impl Root {
    fn open(path: &Path) -> Result<Self> {
        let complain = |errno: Errno| Error::io(format!("open `{}`", path.display()), errno.into());
        let fd = openat(CWD, path, DIRECTORY, Mode::empty()).map_err(complain)?;
        let identity = EntryStat::of(&fd).map_err(complain)?.identity();
        Ok(Self {
            fd,
            path: path.to_owned(),
            identity,
        })
    }

    /// Opens the directory at `below`. A symbolic link in the path is an error.
    fn directory(&self, below: &Path) -> rustix::io::Result<OwnedFd> {
        if below.as_os_str().is_empty() {
            return openat(&self.fd, c".", DIRECTORY, Mode::empty());
        }
        openat2(
            &self.fd,
            below,
            DIRECTORY,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
    }
}

/// Layer of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Upper,
    Lower,
}

/// Layers of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) upper: bool,
    pub(super) lower: bool,
}

/// Entry of a merged tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) stat: EntryStat,
    pub(super) origin: Origin,
    /// Layers of its content, for a directory.
    pub(super) parts: Parts,
}

/// Open directory of a merged tree.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    upper: Option<OwnedFd>,
    lower: Option<OwnedFd>,
    /// Whether a character device 0:0 in the upper layer is a whiteout.
    overlay: bool,
}

impl Merged {
    pub(super) fn open(layer: &ViewLayer) -> Result<Self> {
        Ok(Self {
            upper: layer.upper.as_deref().map(Root::open).transpose()?,
            lower: layer.lower.as_deref().map(Root::open).transpose()?,
        })
    }

    /// Returns whether both have the same lower directory.
    pub(super) fn shares_lower(&self, other: &Self) -> bool {
        matches!((&self.lower, &other.lower), (Some(a), Some(b)) if a.identity == b.identity)
    }

    pub(super) fn root(&self) -> Result<Found> {
        let (root, origin) = match (&self.upper, &self.lower) {
            (Some(upper), _) => (upper, Origin::Upper),
            (None, Some(lower)) => (lower, Origin::Lower),
            (None, None) => return Err(Error::internal("view has no layers")),
        };
        let stat = EntryStat::of(&root.fd).map_err(|errno| {
            Error::io(
                format!("read metadata of `{}`", root.path.display()),
                errno.into(),
            )
        })?;
        Ok(Found {
            stat,
            origin,
            parts: Parts {
                upper: self.upper.is_some(),
                lower: self.lower.is_some(),
            },
        })
    }

    pub(super) fn directory(&self, below: &Path, parts: Parts) -> Result<OpenDirectory> {
        let open = |root: &Option<Root>, wanted: bool| match root {
            Some(root) if wanted => match root.directory(below) {
                Ok(fd) => Ok(Some(fd)),
                // The live tree changed during the walk: the directory is gone or replaced.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
                Err(Errno::NAMETOOLONG) => Err(path_too_long()),
                Err(errno) => Err(Error::io(
                    format!("open `{}`", root.path.join(below).display()),
                    errno.into(),
                )),
            },
            _ => Ok(None),
        };
        Ok(OpenDirectory {
            upper: open(&self.upper, parts.upper)?,
            lower: open(&self.lower, parts.lower)?,
            overlay: self.lower.is_some(),
        })
    }

    /// Returns the path of an entry on disk.
    pub(super) fn real_path(&self, below: &Path, origin: Origin) -> Option<PathBuf> {
        let root = match origin {
            Origin::Upper => self.upper.as_ref()?,
            Origin::Lower => self.lower.as_ref()?,
        };
        // Joining an empty path would add a slash.
        Some(if below.as_os_str().is_empty() {
            root.path.clone()
        } else {
            root.path.join(below)
        })
    }
}

impl OpenDirectory {
    /// Returns the open directory of an entry of the given origin.
    pub(super) fn part(&self, origin: Origin) -> io::Result<&OwnedFd> {
        let part = match origin {
            Origin::Upper => &self.upper,
            Origin::Lower => &self.lower,
        };
        part.as_ref()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    /// Lists the names in the session's own layer, with whiteouts.
    pub(super) fn upper_names(&self) -> rustix::io::Result<Vec<CString>> {
        list(self.upper.as_ref())
    }

    pub(super) fn lower_names(&self) -> rustix::io::Result<Vec<CString>> {
        list(self.lower.as_ref())
    }

    /// Looks up `name` in the merged tree.
    pub(super) fn look_up(&self, name: &CStr) -> rustix::io::Result<Option<Found>> {
        let below = match &self.lower {
            Some(lower) => stat_at(lower, name)?,
            None => None,
        };
        if let Some(upper) = &self.upper
            && let Some(stat) = stat_at(upper, name)?
        {
            if self.overlay && stat.is_whiteout() {
                return Ok(None);
            }
            let merges = stat.kind == FileType::Directory
                && below.is_some_and(|below| below.kind == FileType::Directory)
                && !is_opaque(upper, name)?;
            return Ok(Some(Found {
                stat,
                origin: Origin::Upper,
                parts: Parts {
                    upper: true,
                    lower: merges,
                },
            }));
        }
        Ok(below.map(|stat| Found {
            stat,
            origin: Origin::Lower,
            parts: Parts {
                upper: false,
                lower: true,
            },
        }))
    }
}

fn list(directory: Option<&OwnedFd>) -> rustix::io::Result<Vec<CString>> {
    directory.map_or(Ok(Vec::new()), |fd| {
        Ok(names(fd)?.into_iter().map(|(name, _)| name).collect())
    })
}

fn stat_at(directory: &OwnedFd, name: &CStr) -> rustix::io::Result<Option<EntryStat>> {
    match EntryStat::at(directory, name) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns whether an upper directory is opaque: it hides the lower one of the same name.
fn is_opaque(directory: &OwnedFd, name: &CStr) -> rustix::io::Result<bool> {
    match XattrTarget::Named(directory, name).get(c"trusted.overlay.opaque") {
        Ok(value) => Ok(value == b"y"),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Appends a component to `below`.
pub(super) fn child(below: &Path, name: &CStr) -> PathBuf {
    below.join(std::ffi::OsStr::from_bytes(name.to_bytes()))
}
