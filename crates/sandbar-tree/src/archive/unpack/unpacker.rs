//! The loop that unpacks an archive entry by entry.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, Result};

use super::{
    options::{Devices, Directories, UnpackOptions, UnpackSummary, Whiteouts, Zeros},
    place::{Place, PlaceError, Root, normal_path},
};
use crate::{
    archive::{
        entry::{ArchiveEntry, EntryKind, Segment},
        limits::{Limits, exceeded},
        reader::ArchiveReader,
    },
    copy::write_all_at,
    descent::EntryStat,
    remove::remove_at,
};

/// Unpacks archives into one directory. For an image, call [`unpack`](Self::unpack) on one unpacker
/// for each layer.
#[derive(Debug)]
pub struct Unpacker<'a> {
    pub(in crate::archive) root: Root,
    pub(in crate::archive) options: UnpackOptions<'a>,
    pub(in crate::archive) summary: UnpackSummary,
    /// Directories whose metadata is set last, because creating entries changes their times.
    directories: BTreeMap<Vec<u8>, ArchiveEntry>,
    /// Paths of the current layer, which its own whiteouts do not delete.
    pub(in crate::archive) unpacked: BTreeSet<Vec<u8>>,
    /// Directories of the current layer whose content of lower layers was deleted.
    pub(in crate::archive) opaque: BTreeSet<Vec<u8>>,
    /// Directories listed for whiteouts; tests compare it with the size of the archive.
    pub(in crate::archive) listed: u64,
    written: u64,
    /// Bytes of the streams so far.
    streamed: u64,
}

impl<'a> Unpacker<'a> {
    pub fn new(root: OwnedFd, options: UnpackOptions<'a>) -> Self {
        Self {
            root: Root::new(root, options.links),
            options,
            summary: UnpackSummary::default(),
            directories: BTreeMap::new(),
            unpacked: BTreeSet::new(),
            opaque: BTreeSet::new(),
            listed: 0,
            written: 0,
            streamed: 0,
        }
    }

    pub fn summary(&self) -> &UnpackSummary {
        &self.summary
    }

    /// Unpacks one archive. After a failure, entries unpacked before it stay.
    pub fn unpack<R: Read>(&mut self, archive: &mut ArchiveReader<R>) -> Result<()> {
        self.unpacked.clear();
        self.opaque.clear();
        let (limits, before) = (self.options.limits, archive.bytes_read());
        archive.limit(Limits {
            stream: limits.stream.saturating_sub(self.streamed),
            ..limits
        });
        let outcome = self.unpack_entries(archive);
        self.streamed = self.streamed.saturating_add(archive.bytes_read() - before);
        outcome?;
        self.finish_directories()
    }

    fn unpack_entries<R: Read>(&mut self, archive: &mut ArchiveReader<R>) -> Result<()> {
        while let Some(mut entry) = archive.next_entry()? {
            (self.options.check)()?;
            if !(self.options.select)(&mut entry) {
                continue;
            }
            self.summary.entries += 1;
            if self.summary.entries > self.options.limits.entries {
                return Err(exceeded(format_args!(
                    "{} entries",
                    self.options.limits.entries
                )));
            }
            self.one(entry, archive)?;
            (self.options.progress)(self.summary.entries, self.summary.bytes);
        }
        Ok(())
    }

    /// Removes a path with everything below it. A missing path is success.
    pub fn remove(&mut self, path: &[u8]) -> Result<()> {
        let refused = |why: &str| {
            Error::new(
                ErrorCode::InvalidArgument,
                format!("deleted path `{}` {why}", path.escape_ascii()),
            )
        };
        let normal = normal_path(path).map_err(refused)?;
        if normal.is_empty() {
            return Err(refused("is the root"));
        }
        self.root.forget();
        match self.root.open_place(&normal) {
            Ok(place) => remove_at(&place.parent, &place.name).map_err(|errno| {
                Error::io(format!("remove `{}`", path.escape_ascii()), errno.into())
            }),
            Err(PlaceError::Failed(Errno::NOENT) | PlaceError::NotDirectory) => Ok(()),
            Err(PlaceError::Link) => Err(refused("passes through a symbolic link")),
            Err(PlaceError::Failed(errno)) => Err(Error::io(
                format!("remove `{}`", path.escape_ascii()),
                errno.into(),
            )),
        }
    }

    fn one<R: Read>(&mut self, entry: ArchiveEntry, archive: &mut ArchiveReader<R>) -> Result<()> {
        let path = normal_path(&entry.path).map_err(|why| refused(&entry, why))?;
        let depth = path.split(|byte| *byte == b'/').count() as u64;
        if depth > self.options.limits.depth {
            let why = format!("is more than {} levels deep", self.options.limits.depth);
            return Err(refused_at(&entry.path, &why));
        }
        if path.is_empty() {
            // The root exists; only its metadata is set.
            if entry.kind == EntryKind::Directory {
                self.directories.insert(path, entry);
            }
            return Ok(());
        }
        if self.options.whiteouts == Whiteouts::Oci && self.whiteout(&entry, &path)? {
            return Ok(());
        }
        let place = self
            .root
            .place(&path)
            .map_err(|error| error.naming(&entry))?;
        match &entry.kind {
            EntryKind::Directory => self.directory(&entry, &place)?,
            EntryKind::File => self.file(&entry, &place, archive)?,
            EntryKind::Symlink { target } => {
                self.make_room(&entry, &place)?;
                fs::symlinkat(target.as_slice(), &place.parent, &place.name)
                    .map_err(|errno| failure(&entry, errno))?;
                self.restore_named(&entry, &place)?;
            }
            EntryKind::HardLink { target } => self.hard_link(&entry, &place, &path, target)?,
            EntryKind::Fifo => self.node(&entry, &place, FileType::Fifo, (0, 0))?,
            EntryKind::CharDevice { major: 0, minor: 0 } => {
                self.summary
                    .note(|| format!("`{}` is an overlay whiteout", entry.display()));
            }
            EntryKind::CharDevice { major, minor } => {
                self.node(&entry, &place, FileType::CharacterDevice, (*major, *minor))?;
            }
            EntryKind::BlockDevice { major, minor } => {
                self.node(&entry, &place, FileType::BlockDevice, (*major, *minor))?;
            }
            EntryKind::Other(flag) => {
                self.summary.note(|| {
                    format!(
                        "`{}` is of an unknown type `{}`",
                        entry.display(),
                        flag.escape_ascii()
                    )
                });
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
        let there =
            EntryStat::at(&place.parent, &place.name).map_err(|errno| failure(entry, errno))?;
        if there.kind != FileType::Directory {
            self.make_room(entry, place)?;
            fs::mkdirat(&place.parent, &place.name, Mode::RWXU)
                .map_err(|errno| failure(entry, errno))?;
        }
        Ok(())
    }

    fn file<R: Read>(
        &mut self,
        entry: &ArchiveEntry,
        place: &Place,
        archive: &mut ArchiveReader<R>,
    ) -> Result<()> {
        self.written = self.written.saturating_add(entry.data_size());
        if self.written > self.options.limits.bytes {
            return Err(exceeded(format_args!(
                "{} bytes",
                self.options.limits.bytes
            )));
        }
        self.make_room(entry, place)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&place.parent, &place.name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| failure(entry, errno))?;
        let whole = [Segment {
            offset: 0,
            length: entry.size,
        }];
        let mut buffer = vec![0; usize::try_from(entry.data_size().min(256 << 10)).unwrap_or(0)];
        let before = self.summary.bytes;
        for segment in entry.segments.as_deref().unwrap_or(&whole) {
            let mut done = 0;
            while done < segment.length {
                let wanted = usize::try_from(segment.length - done)
                    .unwrap_or(usize::MAX)
                    .min(buffer.len());
                (self.options.check)()?;
                let got = archive.read_data(&mut buffer[..wanted])?;
                let data = &buffer[..got];
                if self.options.zeros == Zeros::Write || data.iter().any(|byte| *byte != 0) {
                    write_all_at(&file, data, segment.offset + done)
                        .map_err(|errno| failure(entry, errno))?;
                }
                done += got as u64;
                self.summary.bytes += got as u64;
                (self.options.progress)(self.summary.entries, self.summary.bytes);
            }
        }
        // Saturating: a hole may be as long as a number can be.
        self.summary.bytes = before.saturating_add(entry.size);
        if entry.segments.is_some() || self.options.zeros == Zeros::Skip {
            fs::ftruncate(&file, entry.size).map_err(|errno| failure(entry, errno))?;
        }
        self.restore_open(entry, file.as_fd())
    }

    fn hard_link(
        &mut self,
        entry: &ArchiveEntry,
        place: &Place,
        path: &[u8],
        target: &[u8],
    ) -> Result<()> {
        let target = normal_path(target)
            .map_err(|why| refused(entry, &format!("links to a path that {why}")))?;
        if target == path {
            return Ok(());
        }
        if target.is_empty() {
            return Err(refused(entry, "is a hard link to the root"));
        }
        let from = self
            .root
            .open_place(&target)
            .map_err(|error| error.naming(entry))?;
        let Ok(stat) = EntryStat::at(&from.parent, &from.name) else {
            // Either its target was left out as well, or the archive is malformed.
            if self.summary.omitted > 0 {
                self.summary
                    .note(|| format!("`{}` links to something left out", entry.display()));
                return Ok(());
            }
            return Err(refused(
                entry,
                &format!(
                    "is a hard link to `{}`, which does not exist",
                    target.escape_ascii()
                ),
            ));
        };
        if stat.kind == FileType::Directory {
            return Err(refused(entry, "is a hard link to a directory"));
        }
        if EntryStat::at(&place.parent, &place.name)
            .is_ok_and(|there| there.identity() == stat.identity())
        {
            return Ok(());
        }
        self.make_room(entry, place)?;
        fs::linkat(
            &from.parent,
            &from.name,
            &place.parent,
            &place.name,
            AtFlags::empty(),
        )
        .map_err(|errno| failure(entry, errno))
    }

    fn node(
        &mut self,
        entry: &ArchiveEntry,
        place: &Place,
        kind: FileType,
        device: (u32, u32),
    ) -> Result<()> {
        if kind != FileType::Fifo && self.options.devices == Devices::LeaveOut {
            self.summary
                .note(|| format!("`{}` is a device, which is left out", entry.display()));
            return Ok(());
        }
        if kind != FileType::Fifo && !rustix::process::geteuid().is_root() {
            self.summary.note(|| {
                format!(
                    "`{}` is a device, which only root can make",
                    entry.display()
                )
            });
            return Ok(());
        }
        self.make_room(entry, place)?;
        let device = fs::makedev(device.0, device.1);
        match fs::mknodat(
            &place.parent,
            &place.name,
            kind,
            Mode::RUSR | Mode::WUSR,
            device,
        ) {
            Ok(()) => self.restore_named(entry, place),
            Err(errno @ (Errno::PERM | Errno::ACCESS)) => {
                self.summary
                    .note(|| format!("`{}` cannot be made here: {errno}", entry.display()));
                Ok(())
            }
            Err(errno) => Err(failure(entry, errno)),
        }
    }

    /// Removes an existing entry with the name of a new one.
    fn make_room(&mut self, entry: &ArchiveEntry, place: &Place) -> Result<()> {
        match fs::unlinkat(&place.parent, &place.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => {}
            Err(errno) => return Err(failure(entry, errno)),
        }
        // The cached directory may be below the one that is removed.
        self.root.forget();
        match self.options.directories {
            Directories::Replace => {
                remove_at(&place.parent, &place.name).map_err(|errno| failure(entry, errno))
            }
            Directories::Keep => match fs::unlinkat(&place.parent, &place.name, AtFlags::REMOVEDIR)
            {
                Ok(()) => Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST) => Err(refused(
                    entry,
                    "would replace a directory that is not empty",
                )
                .with_hint("remove the directory first, or unpack somewhere else")),
                Err(errno) => Err(failure(entry, errno)),
            },
        }
    }

    /// Sets the metadata of directories, deepest first: setting the mode of a parent may make its
    /// children unreachable.
    fn finish_directories(&mut self) -> Result<()> {
        self.root.forget();
        for (path, entry) in std::mem::take(&mut self.directories).into_iter().rev() {
            (self.options.check)()?;
            match self.root.open_directory(&path) {
                Ok(directory) => self.restore_open(&entry, directory.as_fd())?,
                // Replaced by a later entry.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(failure(&entry, errno)),
            }
        }
        Ok(())
    }
}

pub(in crate::archive) fn refused(entry: &ArchiveEntry, why: &str) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!("archive entry `{}` {why}", entry.display()),
    )
}

/// Refuses an entry whose path may be too long for a message.
fn refused_at(path: &[u8], why: &str) -> Error {
    let shown = &path[..path.len().min(100)];
    Error::new(
        ErrorCode::InvalidArgument,
        format!("archive entry `{}…` {why}", shown.escape_ascii()),
    )
}

pub(in crate::archive) fn failure(entry: &ArchiveEntry, errno: Errno) -> Error {
    Error::io(format!("unpack `{}`", entry.display()), errno.into())
}
