//! Putting an archive into a directory, and nowhere else.

mod place;
mod restore;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::Read,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, Result};

pub(super) use self::place::PlaceError;
use self::place::{Place, Root, normal_path};
use super::{
    entry::{ArchiveEntry, EntryKind, Segment},
    reader::ArchiveReader,
};
use crate::{descent::EntryStat, tree_copy::write_all_at, tree_remove::remove_at};

/// What to do about symbolic links on the way to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Follow them inside the root, as image layers expect (`lib -> usr/lib` in one layer, `lib/x` in the next).
    FollowInRoot,
    /// An entry below a symbolic link is an error.
    Refuse,
}

/// What to do about a directory where the archive has something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directories {
    /// Remove it with everything in it.
    Replace,
    /// Only an empty one gives way; otherwise it is an error.
    Keep,
}

/// Whether names that begin with `.wh.` mean deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whiteouts {
    /// They are names like any other.
    Ordinary,
    /// The archive is an image layer.
    Oci,
}

/// What to do with stretches of zeros in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    Write,
    /// Leave holes there.
    Skip,
}

/// What an archive may hold at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub entries: u64,
    /// Data of all files together.
    pub bytes: u64,
}

impl Limits {
    pub const NONE: Self = Self { entries: u64::MAX, bytes: u64::MAX };
}

/// How an [`Unpacker`] works.
#[derive(Clone, Copy)]
pub struct UnpackOptions<'a> {
    pub links: Links,
    pub directories: Directories,
    pub whiteouts: Whiteouts,
    pub zeros: Zeros,
    pub limits: Limits,
    /// Whose everything becomes; `None` keeps the owners in the archive, as far as the caller may set them.
    pub owner: Option<(u32, u32)>,
    /// Gets the entries and bytes unpacked so far, often.
    pub progress: &'a dyn Fn(u64, u64),
    /// Sees each entry before anything is done about it: may change it, and says whether it is wanted.
    pub select: &'a dyn Fn(&mut ArchiveEntry) -> bool,
}

impl UnpackOptions<'_> {
    /// For trees from anywhere, into a directory that may hold something: nothing passes through links and no full
    /// directory is lost.
    pub const CAREFUL: UnpackOptions<'static> = UnpackOptions {
        links: Links::Refuse,
        directories: Directories::Keep,
        whiteouts: Whiteouts::Ordinary,
        zeros: Zeros::Write,
        limits: Limits::NONE,
        owner: None,
        progress: &|_, _| {},
        select: &|_| true,
    };
}

impl fmt::Debug for UnpackOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnpackOptions")
            .field("links", &self.links)
            .field("directories", &self.directories)
            .field("whiteouts", &self.whiteouts)
            .field("zeros", &self.zeros)
            .field("limits", &self.limits)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// What came out of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnpackSummary {
    pub entries: u64,
    /// Sizes of the regular files.
    pub bytes: u64,
    /// How often something could not be made or kept.
    pub omitted: u64,
    /// The first few of those, for people.
    pub notes: Vec<String>,
}

impl UnpackSummary {
    const MOST_NOTES: usize = 20;

    pub(super) fn note(&mut self, note: impl FnOnce() -> String) {
        self.omitted += 1;
        if self.notes.len() < Self::MOST_NOTES {
            self.notes.push(note());
        }
    }
}

/// Unpacks archives into one directory. Several layers go through one unpacker, each with [`unpack`](Self::unpack).
#[derive(Debug)]
pub struct Unpacker<'a> {
    pub(super) root: Root,
    pub(super) options: UnpackOptions<'a>,
    pub(super) summary: UnpackSummary,
    /// Directories get their metadata when nothing is written into them any more.
    directories: BTreeMap<Vec<u8>, ArchiveEntry>,
    /// What the current layer brought: its own whiteouts do not hide it.
    pub(super) unpacked: BTreeSet<Vec<u8>>,
    written: u64,
}

impl<'a> Unpacker<'a> {
    pub fn new(root: OwnedFd, options: UnpackOptions<'a>) -> Self {
        Self {
            root: Root::new(root, options.links),
            options,
            summary: UnpackSummary::default(),
            directories: BTreeMap::new(),
            unpacked: BTreeSet::new(),
            written: 0,
        }
    }

    pub fn summary(&self) -> &UnpackSummary {
        &self.summary
    }

    /// Unpacks one archive to its end. A failure leaves what was unpacked before it.
    pub fn unpack<R: Read>(&mut self, archive: &mut ArchiveReader<R>) -> Result<()> {
        self.unpacked.clear();
        while let Some(mut entry) = archive.next_entry()? {
            if !(self.options.select)(&mut entry) {
                continue;
            }
            self.summary.entries += 1;
            if self.summary.entries > self.options.limits.entries {
                return Err(Self::too_much(&format!("{} entries", self.options.limits.entries)));
            }
            self.one(entry, archive)?;
            (self.options.progress)(self.summary.entries, self.summary.bytes);
        }
        self.finish_directories()
    }

    /// Removes a path with everything below it. One that is not there is fine.
    pub fn remove(&mut self, path: &[u8]) -> Result<()> {
        let refused =
            |why: &str| Error::new(ErrorCode::InvalidArgument, format!("deleted path `{}` {why}", path.escape_ascii()));
        let normal = normal_path(path).map_err(refused)?;
        if normal.is_empty() {
            return Err(refused("is the root"));
        }
        self.root.forget();
        match self.root.open_place(&normal) {
            Ok(place) => remove_at(&place.parent, &place.name)
                .map_err(|errno| Error::io(format!("remove `{}`", path.escape_ascii()), errno.into())),
            Err(PlaceError::Failed(Errno::NOENT) | PlaceError::NotDirectory) => Ok(()),
            Err(PlaceError::Link) => Err(refused("passes through a symbolic link")),
            Err(PlaceError::Failed(errno)) => Err(Error::io(format!("remove `{}`", path.escape_ascii()), errno.into())),
        }
    }

    fn one<R: Read>(&mut self, entry: ArchiveEntry, archive: &mut ArchiveReader<R>) -> Result<()> {
        let path = normal_path(&entry.path).map_err(|why| refused(&entry, why))?;
        if path.is_empty() {
            // The root is there; it only takes the metadata.
            if entry.kind == EntryKind::Directory {
                self.directories.insert(path, entry);
            }
            return Ok(());
        }
        if self.options.whiteouts == Whiteouts::Oci && self.whiteout(&entry, &path)? {
            return Ok(());
        }
        let place = self.root.place(&path).map_err(|error| error.naming(&entry))?;
        match &entry.kind {
            EntryKind::Directory => self.directory(&entry, &place)?,
            EntryKind::File => self.file(&entry, &place, archive)?,
            EntryKind::Symlink { target } => {
                self.make_room(&entry, &place)?;
                fs::symlinkat(target.as_slice(), &place.parent, &place.name).map_err(|errno| failure(&entry, errno))?;
                self.restore_named(&entry, &place)?;
            }
            EntryKind::HardLink { target } => self.hard_link(&entry, &place, &path, target)?,
            EntryKind::Fifo => self.node(&entry, &place, FileType::Fifo, (0, 0))?,
            EntryKind::CharDevice { major: 0, minor: 0 } => {
                self.summary.note(|| format!("`{}` is an overlay whiteout", entry.display()));
            }
            EntryKind::CharDevice { major, minor } => {
                self.node(&entry, &place, FileType::CharacterDevice, (*major, *minor))?;
            }
            EntryKind::BlockDevice { major, minor } => {
                self.node(&entry, &place, FileType::BlockDevice, (*major, *minor))?;
            }
            EntryKind::Other(flag) => {
                self.summary.note(|| format!("`{}` is of an unknown type `{}`", entry.display(), flag.escape_ascii()));
            }
        }
        self.root.give_back(place);
        if self.options.whiteouts == Whiteouts::Oci {
            self.unpacked.insert(path.clone());
        }
        if entry.kind == EntryKind::Directory {
            self.directories.insert(path, entry);
        }
        Ok(())
    }

    fn directory(&mut self, entry: &ArchiveEntry, place: &Place) -> Result<()> {
        match fs::mkdirat(&place.parent, &place.name, Mode::RWXU) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failure(entry, errno)),
        }
        let there = EntryStat::at(&place.parent, &place.name).map_err(|errno| failure(entry, errno))?;
        if there.kind != FileType::Directory {
            self.make_room(entry, place)?;
            fs::mkdirat(&place.parent, &place.name, Mode::RWXU).map_err(|errno| failure(entry, errno))?;
        }
        Ok(())
    }

    fn file<R: Read>(&mut self, entry: &ArchiveEntry, place: &Place, archive: &mut ArchiveReader<R>) -> Result<()> {
        self.written = self.written.saturating_add(entry.data_size());
        if self.written > self.options.limits.bytes {
            return Err(Self::too_much(&format!("{} bytes", self.options.limits.bytes)));
        }
        self.make_room(entry, place)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&place.parent, &place.name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| failure(entry, errno))?;
        let whole = [Segment { offset: 0, length: entry.size }];
        let mut buffer = vec![0; usize::try_from(entry.data_size().min(256 << 10)).unwrap_or(0)];
        let before = self.summary.bytes;
        for segment in entry.segments.as_deref().unwrap_or(&whole) {
            let mut done = 0;
            while done < segment.length {
                let wanted = usize::try_from(segment.length - done).unwrap_or(usize::MAX).min(buffer.len());
                let got = archive.read_data(&mut buffer[..wanted])?;
                let data = &buffer[..got];
                if self.options.zeros == Zeros::Write || data.iter().any(|byte| *byte != 0) {
                    write_all_at(&file, data, segment.offset + done).map_err(|errno| failure(entry, errno))?;
                }
                done += got as u64;
                self.summary.bytes += got as u64;
                (self.options.progress)(self.summary.entries, self.summary.bytes);
            }
        }
        self.summary.bytes = before + entry.size;
        if entry.segments.is_some() || self.options.zeros == Zeros::Skip {
            fs::ftruncate(&file, entry.size).map_err(|errno| failure(entry, errno))?;
        }
        self.restore_open(entry, file.as_fd())
    }

    fn hard_link(&mut self, entry: &ArchiveEntry, place: &Place, path: &[u8], target: &[u8]) -> Result<()> {
        let target = normal_path(target).map_err(|why| refused(entry, &format!("links to a path that {why}")))?;
        if target == path {
            return Ok(());
        }
        if target.is_empty() {
            return Err(refused(entry, "is a hard link to the root"));
        }
        let from = self.root.open_place(&target).map_err(|error| error.naming(entry))?;
        let Ok(stat) = EntryStat::at(&from.parent, &from.name) else {
            // Its target could not be made here either, or the archive is wrong.
            if self.summary.omitted > 0 {
                self.summary.note(|| format!("`{}` links to something left out", entry.display()));
                return Ok(());
            }
            return Err(refused(entry, &format!("is a hard link to `{}`, which is not there", target.escape_ascii())));
        };
        if stat.kind == FileType::Directory {
            return Err(refused(entry, "is a hard link to a directory"));
        }
        if EntryStat::at(&place.parent, &place.name).is_ok_and(|there| there.identity() == stat.identity()) {
            return Ok(());
        }
        self.make_room(entry, place)?;
        fs::linkat(&from.parent, &from.name, &place.parent, &place.name, AtFlags::empty())
            .map_err(|errno| failure(entry, errno))
    }

    fn node(&mut self, entry: &ArchiveEntry, place: &Place, kind: FileType, device: (u32, u32)) -> Result<()> {
        if kind != FileType::Fifo && !rustix::process::geteuid().is_root() {
            self.summary.note(|| format!("`{}` is a device, which only root can make", entry.display()));
            return Ok(());
        }
        self.make_room(entry, place)?;
        let device = fs::makedev(device.0, device.1);
        match fs::mknodat(&place.parent, &place.name, kind, Mode::RUSR | Mode::WUSR, device) {
            Ok(()) => self.restore_named(entry, place),
            Err(errno @ (Errno::PERM | Errno::ACCESS)) => {
                self.summary.note(|| format!("`{}` cannot be made here: {errno}", entry.display()));
                Ok(())
            }
            Err(errno) => Err(failure(entry, errno)),
        }
    }

    /// Removes what is in the place of a new entry.
    fn make_room(&mut self, entry: &ArchiveEntry, place: &Place) -> Result<()> {
        match fs::unlinkat(&place.parent, &place.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => {}
            Err(errno) => return Err(failure(entry, errno)),
        }
        // Whatever was known to be below is gone.
        self.root.forget();
        match self.options.directories {
            Directories::Replace => remove_at(&place.parent, &place.name).map_err(|errno| failure(entry, errno)),
            Directories::Keep => match fs::unlinkat(&place.parent, &place.name, AtFlags::REMOVEDIR) {
                Ok(()) => Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST) => {
                    Err(refused(entry, "would replace a directory that is not empty")
                        .with_hint("remove the directory first, or unpack somewhere else"))
                }
                Err(errno) => Err(failure(entry, errno)),
            },
        }
    }

    /// Gives directories their metadata, deepest first: one that loses its permissions still lets us reach the others.
    fn finish_directories(&mut self) -> Result<()> {
        self.root.forget();
        for (path, entry) in std::mem::take(&mut self.directories).into_iter().rev() {
            match self.root.open_directory(&path) {
                Ok(directory) => self.restore_open(&entry, directory.as_fd())?,
                // A later entry took its place.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(failure(&entry, errno)),
            }
        }
        Ok(())
    }

    fn too_much(what: &str) -> Error {
        Error::new(ErrorCode::InvalidArgument, format!("archive holds more than {what}"))
    }
}

pub(super) fn refused(entry: &ArchiveEntry, why: &str) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("archive entry `{}` {why}", entry.display()))
}

pub(super) fn failure(entry: &ArchiveEntry, errno: Errno) -> Error {
    Error::io(format!("unpack `{}`", entry.display()), errno.into())
}
