//! The walk that copies a tree entry by entry.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, OsStr},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use sandbar_core::{Error, Result};

use super::{
    content::ContentCopier,
    metadata::Target,
    options::{CopyOptions, CopySummary, Fidelity, OverlayInternals},
};
use crate::descent::{DirectoryStack, EntryStat, Identity, names, open_directory};

/// Copies the tree below `source`, and the metadata of `source` itself, to `destination`: a
/// directory that is empty or does not exist yet. File systems mounted inside the source are left
/// out; their mount points become empty directories. After a failure, the caller removes the
/// partial copy.
pub fn copy_tree(
    source: &Path,
    destination: &Path,
    options: &CopyOptions<'_>,
) -> Result<CopySummary> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let from = fs::open(source, directory, Mode::empty())
        .map_err(|errno| Error::io(format!("open `{}`", source.display()), errno.into()))?;
    match fs::mkdir(destination, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => {
            return Err(Error::io(
                format!("make directory `{}`", destination.display()),
                errno.into(),
            ));
        }
    }
    let to = fs::openat(
        CWD,
        destination,
        directory | OFlags::NOFOLLOW,
        Mode::empty(),
    )
    .map_err(|errno| Error::io(format!("open `{}`", destination.display()), errno.into()))?;
    copy_opened(from, to, source, options)
}

/// Copies an open directory to an empty one; `source` names it in errors.
pub(crate) fn copy_opened(
    from: OwnedFd,
    to: OwnedFd,
    source: &Path,
    options: &CopyOptions<'_>,
) -> Result<CopySummary> {
    let mut copy = TreeCopy {
        options,
        content: ContentCopier::default(),
        linked: HashMap::new(),
        place: PathBuf::new(),
        source,
        summary: CopySummary::default(),
    };
    copy.run(from, to)?;
    Ok(copy.summary)
}

/// Directory being copied, with the names left in it.
struct Level {
    stat: EntryStat,
    left: Vec<(CString, FileType)>,
}

/// First copied name of a hard-linked file, relative to the root.
struct FirstName {
    path: PathBuf,
    unseen: u32,
}

pub(super) struct TreeCopy<'a> {
    pub(super) options: &'a CopyOptions<'a>,
    content: ContentCopier,
    linked: HashMap<Identity, FirstName>,
    /// Current entry of the walk, relative to the root.
    pub(super) place: PathBuf,
    source: &'a Path,
    pub(super) summary: CopySummary,
}

impl TreeCopy<'_> {
    fn run(&mut self, from: OwnedFd, to: OwnedFd) -> Result<()> {
        let stat = EntryStat::of(&from).map_err(|errno| self.failure("read", errno))?;
        let own = EntryStat::of(&to)
            .map_err(|errno| self.failure("write", errno))?
            .identity();
        let root = to
            .try_clone()
            .map_err(|error| Error::io("duplicate a descriptor", error))?;
        let left = names(&from).map_err(|errno| self.failure("list", errno))?;
        let mut sources = DirectoryStack::new(from).map_err(|errno| self.failure("read", errno))?;
        let mut targets = DirectoryStack::new(to).map_err(|errno| self.failure("write", errno))?;
        let mut levels = vec![Level { stat, left }];
        while let Some(level) = levels.last_mut() {
            let Some((name, kind)) = level.left.pop() else {
                let stat = level.stat;
                levels.pop();
                let from = sources
                    .pop()
                    .map_err(|errno| self.failure("leave", errno))?;
                let to = targets
                    .pop()
                    .map_err(|errno| self.failure("leave", errno))?;
                if let (Some(from), Some(to)) = (from, to) {
                    self.finish(
                        &Target::Open(from.as_fd()),
                        &Target::Open(to.as_fd()),
                        &stat,
                    )?;
                } else {
                    // `pop` keeps the root open: it is still the current directory.
                    let from = sources
                        .current()
                        .map_err(|errno| self.failure("read", errno))?;
                    let to = targets
                        .current()
                        .map_err(|errno| self.failure("write", errno))?;
                    self.finish(&Target::Open(from), &Target::Open(to), &stat)?;
                }
                self.place.pop();
                continue;
            };
            (self.options.check)()?;
            self.place.push(OsStr::from_bytes(name.to_bytes()));
            let from = sources
                .current()
                .map_err(|errno| self.failure("read", errno))?;
            let to = targets
                .current()
                .map_err(|errno| self.failure("write", errno))?;
            let entered = match kind {
                FileType::Directory => self.enter(from, to, &name, own)?,
                FileType::RegularFile => {
                    self.file(from, to, &root, &name)?;
                    None
                }
                _ => self.other(from, to, &root, &name, own)?,
            };
            match entered {
                Some(entered) => {
                    sources.push(entered.from, entered.level.stat.identity());
                    targets.push(entered.to, entered.target);
                    levels.push(entered.level);
                }
                None => {
                    self.place.pop();
                }
            }
        }
        Ok(())
    }

    /// Creates a directory and lists its source. `None` when the walk does not descend: a mount
    /// point, an unreadable directory, or the copy itself.
    fn enter(
        &mut self,
        from: impl AsFd,
        to: impl AsFd,
        name: &CStr,
        own: Identity,
    ) -> Result<Option<Entered>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match fs::openat2(&from, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
            Ok(opened) => Some(opened),
            Err(Errno::XDEV) => {
                self.summary.note(|| {
                    format!(
                        "`{}` is a mount point and stays empty",
                        self.place.display()
                    )
                });
                None
            }
            Err(errno @ (Errno::ACCESS | Errno::PERM)) if self.lenient() => {
                self.summary
                    .note(|| format!("`{}` cannot be listed: {errno}", self.place.display()));
                None
            }
            Err(errno) => return Err(self.failure("open", errno)),
        };
        let stat = match &opened {
            Some(opened) => EntryStat::of(opened),
            None => EntryStat::at(&from, name),
        }
        .map_err(|errno| self.failure("read", errno))?;
        if stat.identity() == own {
            self.summary
                .note(|| format!("`{}` is the copy itself", self.place.display()));
            return Ok(None);
        }
        fs::mkdirat(&to, name, Mode::RWXU)
            .map_err(|errno| self.failure("make directory", errno))?;
        let made = open_directory(&to, name).map_err(|errno| self.failure("open", errno))?;
        self.count();
        let Some(opened) = opened else {
            self.finish(
                &Target::Named(from.as_fd(), name),
                &Target::Open(made.as_fd()),
                &stat,
            )?;
            return Ok(None);
        };
        let left = names(&opened).map_err(|errno| self.failure("list", errno))?;
        let target = EntryStat::of(&made)
            .map_err(|errno| self.failure("read", errno))?
            .identity();
        Ok(Some(Entered {
            from: opened,
            to: made,
            target,
            level: Level { stat, left },
        }))
    }

    fn file(&mut self, from: impl AsFd, to: impl AsFd, root: &OwnedFd, name: &CStr) -> Result<()> {
        // `O_NONBLOCK`: if the file was replaced by a pipe, opening it must not wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match fs::openat(&from, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(errno @ (Errno::ACCESS | Errno::PERM)) if self.lenient() => {
                self.summary
                    .note(|| format!("`{}` cannot be read: {errno}", self.place.display()));
                return Ok(());
            }
            Err(errno) => return Err(self.failure("open", errno)),
        };
        let stat = EntryStat::of(&opened).map_err(|errno| self.failure("read", errno))?;
        if stat.kind != FileType::RegularFile {
            return Err(Error::internal(format!(
                "`{}` changed while it was copied",
                self.full().display()
            )));
        }
        if self.linked_already(&to, root, name, &stat)? {
            return Ok(());
        }
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = fs::openat(&to, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| self.failure("create", errno))?;
        let (entries, mut bytes) = (self.summary.entries, self.summary.bytes);
        self.content
            .copy(
                opened.as_fd(),
                made.as_fd(),
                stat.size,
                stat.allocated,
                &mut |done| {
                    bytes += done;
                    (self.options.progress)(entries, bytes);
                },
            )
            .map_err(|errno| self.failure("copy", errno))?;
        self.finish(
            &Target::Open(opened.as_fd()),
            &Target::Open(made.as_fd()),
            &stat,
        )?;
        self.summary.bytes += stat.size;
        self.count();
        Ok(())
    }

    /// Copies an entry without content, or one whose type the directory did not store.
    fn other(
        &mut self,
        from: impl AsFd,
        to: impl AsFd,
        root: &OwnedFd,
        name: &CStr,
        own: Identity,
    ) -> Result<Option<Entered>> {
        let stat = EntryStat::at(&from, name).map_err(|errno| self.failure("read", errno))?;
        match stat.kind {
            FileType::Directory => return self.enter(from, to, name, own),
            FileType::RegularFile => return self.file(from, to, root, name).map(|()| None),
            _ => {}
        }
        if self.options.overlay_internals == OverlayInternals::Drop && stat.is_whiteout() {
            self.summary
                .note(|| format!("`{}` is an overlay whiteout", self.place.display()));
            return Ok(None);
        }
        if self.linked_already(&to, root, name, &stat)? {
            return Ok(None);
        }
        let made = if stat.kind == FileType::Symlink {
            let target = fs::readlinkat(&from, name, Vec::new())
                .map_err(|errno| self.failure("read link", errno))?;
            fs::symlinkat(target.as_c_str(), &to, name)
        } else {
            let node = fs::makedev(stat.node.0, stat.node.1);
            fs::mknodat(&to, name, stat.kind, Mode::RUSR | Mode::WUSR, node)
        };
        match made {
            Ok(()) => {}
            Err(errno @ (Errno::ACCESS | Errno::PERM)) if self.lenient() => {
                self.linked.remove(&stat.identity());
                self.summary
                    .note(|| format!("`{}` cannot be made here: {errno}", self.place.display()));
                return Ok(None);
            }
            Err(errno) => return Err(self.failure("make", errno)),
        }
        self.finish(
            &Target::Named(from.as_fd(), name),
            &Target::Named(to.as_fd(), name),
            &stat,
        )?;
        self.count();
        Ok(None)
    }

    /// Links `name` to an earlier copy of the same inode, or records it as the first.
    fn linked_already(
        &mut self,
        to: impl AsFd,
        root: &OwnedFd,
        name: &CStr,
        stat: &EntryStat,
    ) -> Result<bool> {
        if stat.links < 2 {
            return Ok(false);
        }
        let Some(first) = self.linked.get_mut(&stat.identity()) else {
            let first = FirstName {
                path: self.place.clone(),
                unseen: stat.links - 1,
            };
            self.linked.insert(stat.identity(), first);
            return Ok(false);
        };
        first.unseen -= 1;
        let linked = link_from_root(root, &first.path, to, name);
        if first.unseen == 0 {
            self.linked.remove(&stat.identity());
        }
        linked.map_err(|errno| self.failure("link", errno))?;
        self.count();
        Ok(true)
    }

    fn count(&mut self) {
        self.summary.entries += 1;
        (self.options.progress)(self.summary.entries, self.summary.bytes);
    }

    pub(super) fn lenient(&self) -> bool {
        self.options.fidelity == Fidelity::BestEffort
    }

    fn full(&self) -> PathBuf {
        self.source.join(&self.place)
    }

    pub(super) fn failure(&self, verb: &str, errno: Errno) -> Error {
        Error::io(format!("{verb} `{}`", self.full().display()), errno.into())
    }
}

struct Entered {
    from: OwnedFd,
    to: OwnedFd,
    target: Identity,
    level: Level,
}

/// Calls `linkat` with a source path of any length below `root`.
fn link_from_root(root: &OwnedFd, path: &Path, to: impl AsFd, name: &CStr) -> Result<(), Errno> {
    const MAX_PATH_BYTES: usize = 4000;
    let mut directory = None;
    let mut rest = path.as_os_str().as_bytes();
    while rest.len() > MAX_PATH_BYTES {
        let Some(cut) = rest[..MAX_PATH_BYTES]
            .iter()
            .rposition(|byte| *byte == b'/')
        else {
            return Err(Errno::NAMETOOLONG);
        };
        let part = CString::new(&rest[..cut]).map_err(|_| Errno::INVAL)?;
        directory = Some(open_directory(directory.as_ref().unwrap_or(root), &part)?);
        rest = &rest[cut + 1..];
    }
    fs::linkat(
        directory.as_ref().unwrap_or(root),
        rest,
        to,
        name,
        AtFlags::empty(),
    )
}
