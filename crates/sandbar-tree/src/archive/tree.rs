//! Appending trees on disk to an archive.

use std::{
    ffi::{CStr, CString},
    io::{Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{self, FileType, Mode, OFlags},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, Result};

use super::{
    entry::{ArchiveEntry, EntryKind, Segment},
    writer::ArchiveWriter,
};
use crate::{
    copy::next_data,
    descent::{DirectoryStack, EntryStat, names, open_directory},
    xattrs::{XattrTarget, is_overlay_internal},
};

impl<W: Write> ArchiveWriter<W> {
    /// Appends the entry `name` of `directory` and, recursively, its content, as `archived_as`.
    /// Entries are sorted by name, so equal trees give equal archives. An empty `archived_as`
    /// leaves out the root itself.
    pub fn append_tree(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &Path,
        archived_as: &Path,
    ) -> Result<()> {
        let name = c_name(name.as_os_str().as_bytes())?;
        let mut place = archived_as.as_os_str().as_bytes().to_vec();
        let stat = EntryStat::at(directory, &name).map_err(|errno| match errno {
            Errno::NOENT => missing(&place),
            errno => failure(&place, errno),
        })?;
        if stat.kind != FileType::Directory {
            return self.append_named(directory, &name, &place, &stat);
        }
        let root = open_directory(directory, &name).map_err(|errno| failure(&place, errno))?;
        if !place.is_empty() {
            self.append_open_directory(&root, &place)?;
        }
        let mut levels = vec![(place.len(), sorted_names(&root, &place)?)];
        let mut directories = DirectoryStack::new(root).map_err(|errno| failure(&place, errno))?;
        while let Some((length, left)) = levels.last_mut() {
            place.truncate(*length);
            let Some((name, kind)) = left.pop() else {
                levels.pop();
                directories.pop().map_err(|errno| failure(&place, errno))?;
                continue;
            };
            if !place.is_empty() {
                place.push(b'/');
            }
            place.extend_from_slice(name.to_bytes());
            let current = directories
                .current()
                .map_err(|errno| failure(&place, errno))?;
            let stat = match kind {
                FileType::Directory => None,
                _ => match EntryStat::at(current, &name) {
                    Ok(stat) => Some(stat).filter(|stat| stat.kind != FileType::Directory),
                    // Deleted since it was listed; expected in a live tree.
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(failure(&place, errno)),
                },
            };
            if let Some(stat) = stat {
                self.append_named(current, &name, &place, &stat)?;
                continue;
            }
            let entered = match open_directory(current, &name) {
                Ok(entered) => entered,
                Err(errno) if is_replaced(errno) => continue,
                Err(errno) => return Err(failure(&place, errno)),
            };
            let stat = self.append_open_directory(&entered, &place)?;
            levels.push((place.len(), sorted_names(&entered, &place)?));
            directories.push(entered, stat.identity());
        }
        Ok(())
    }

    /// Appends one entry without its content; `false` when it does not exist. A file already in the
    /// archive under another name becomes a hard link.
    pub fn append_entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &Path,
        archived_as: &Path,
    ) -> Result<bool> {
        let place = archived_as.as_os_str().as_bytes();
        let name = c_name(name.as_os_str().as_bytes())?;
        let stat = match EntryStat::at(directory, &name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(failure(place, errno)),
        };
        if stat.kind == FileType::Directory {
            let opened = open_directory(directory, &name).map_err(|errno| failure(place, errno))?;
            self.append_open_directory(&opened, place)?;
        } else if !stat.is_whiteout() {
            self.append_named(directory, &name, place, &stat)?;
        }
        Ok(true)
    }

    fn append_open_directory(&mut self, directory: &OwnedFd, place: &[u8]) -> Result<EntryStat> {
        let stat = EntryStat::of(directory).map_err(|errno| failure(place, errno))?;
        if let Some(mut entry) = ArchiveEntry::from_stat(place.to_vec(), &stat, Vec::new) {
            entry.xattrs = attributes(&XattrTarget::Open(directory.as_fd()))
                .map_err(|errno| failure(place, errno))?;
            self.append_found(entry, &mut std::io::empty())?;
        }
        Ok(stat)
    }

    fn append_named(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        place: &[u8],
        stat: &EntryStat,
    ) -> Result<()> {
        if stat.kind == FileType::Socket {
            self.summary.sockets_skipped += 1;
            return Ok(());
        }
        if stat.kind == FileType::RegularFile {
            return self.append_file(directory, name, place);
        }
        let mut target = Vec::new();
        if stat.kind == FileType::Symlink {
            target = match fs::readlinkat(directory, name, Vec::new()) {
                Ok(read) => read.into_bytes(),
                Err(errno) if is_replaced(errno) => return Ok(()),
                Err(errno) => return Err(failure(place, errno)),
            };
        }
        let Some(mut entry) = ArchiveEntry::from_stat(place.to_vec(), stat, || target) else {
            return Ok(());
        };
        if !self.linked_before(&mut entry, stat) {
            entry.xattrs = attributes(&XattrTarget::Named(directory, name))
                .map_err(|errno| failure(place, errno))?;
        }
        self.append_found(entry, &mut std::io::empty())
    }

    fn append_file(&mut self, directory: BorrowedFd<'_>, name: &CStr, place: &[u8]) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(directory, name, flags, Mode::empty()) {
            Ok(file) => std::fs::File::from(file),
            Err(errno) if is_replaced(errno) => return Ok(()),
            Err(errno) => return Err(failure(place, errno)),
        };
        let stat = EntryStat::of(&file).map_err(|errno| failure(place, errno))?;
        let Some(mut entry) = ArchiveEntry::from_stat(place.to_vec(), &stat, Vec::new)
            .filter(|entry| entry.kind == EntryKind::File)
        else {
            // Replaced by something else since it was listed.
            return Ok(());
        };
        if self.linked_before(&mut entry, &stat) {
            return self.append_found(entry, &mut std::io::empty());
        }
        entry.xattrs =
            attributes(&XattrTarget::Open(file.as_fd())).map_err(|errno| failure(place, errno))?;
        if stat.allocated < stat.size {
            entry.segments = segments(&file, stat.size).map_err(|errno| failure(place, errno))?;
        }
        let whole = [Segment {
            offset: 0,
            length: entry.size,
        }];
        let segments = entry.segments.clone();
        let segments = segments.as_deref().unwrap_or(&whole);
        self.append_found(
            entry,
            &mut SegmentReader {
                file: &file,
                segments,
                done: 0,
            },
        )
    }

    fn append_found(&mut self, mut entry: ArchiveEntry, data: &mut dyn Read) -> Result<()> {
        if let Some(owners) = &self.owners {
            entry.translate_owners(&|owner| owners.inside(owner));
        }
        self.append(&entry, data)
    }

    /// Turns the entry into a hard link if its inode is already in the archive.
    fn linked_before(&mut self, entry: &mut ArchiveEntry, stat: &EntryStat) -> bool {
        if stat.links < 2 {
            return false;
        }
        if let Some(first) = self.linked.get(&stat.identity()) {
            entry.kind = EntryKind::HardLink {
                target: first.clone(),
            };
            entry.size = 0;
            return true;
        }
        self.linked.insert(stat.identity(), entry.path.clone());
        false
    }
}

/// Whether an entry was removed, or replaced by one of another type, since it was listed. That is
/// expected in a live tree.
fn is_replaced(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL
    )
}

/// Returns the data segments; `None` when there is no hole. As in GNU tar, an empty last segment
/// marks a hole at the end.
fn segments(file: &std::fs::File, size: u64) -> Result<Option<Vec<Segment>>, Errno> {
    let mut found = Vec::new();
    let mut end = 0;
    while let Some((start, stop)) = next_data(file, end, size)? {
        found.push(Segment {
            offset: start,
            length: stop - start,
        });
        end = stop;
    }
    if found
        == [Segment {
            offset: 0,
            length: size,
        }]
    {
        return Ok(None);
    }
    if end < size {
        found.push(Segment {
            offset: size,
            length: 0,
        });
    }
    Ok(Some(found))
}

/// Reader of the segments of a file in sequence.
struct SegmentReader<'a> {
    file: &'a std::fs::File,
    segments: &'a [Segment],
    done: u64,
}

impl Read for SegmentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while let Some((first, rest)) = self.segments.split_first() {
            let left = first.length - self.done;
            if left == 0 {
                (self.segments, self.done) = (rest, 0);
                continue;
            }
            let wanted = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            let got = std::os::unix::fs::FileExt::read_at(
                self.file,
                &mut buffer[..wanted],
                first.offset + self.done,
            )?;
            if got == 0 {
                // The file was truncated concurrently: fill with zeros, so that later segments keep
                // their offsets.
                buffer[..wanted].fill(0);
            }
            let got = if got == 0 { wanted } else { got };
            self.done += got as u64;
            return Ok(got);
        }
        Ok(0)
    }
}

fn attributes(place: &XattrTarget<'_, BorrowedFd<'_>>) -> Result<Vec<(CString, Vec<u8>)>, Errno> {
    let mut found = Vec::new();
    let mut names = place.list()?;
    names.sort();
    for name in names {
        if is_overlay_internal(&name) {
            continue;
        }
        match place.get(&name) {
            Ok(value) => found.push((name, value)),
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}

/// Lists a directory in descending order, because names are popped from the end.
fn sorted_names(directory: &OwnedFd, place: &[u8]) -> Result<Vec<(CString, FileType)>> {
    let mut found = names(directory).map_err(|errno| failure(place, errno))?;
    found.sort_by(|left, right| right.0.cmp(&left.0));
    Ok(found)
}

fn c_name(name: &[u8]) -> Result<CString> {
    CString::new(name).map_err(|_| {
        Error::internal(format!(
            "file name `{}` holds a zero byte",
            name.escape_ascii()
        ))
    })
}

fn missing(place: &[u8]) -> Error {
    Error::new(
        ErrorCode::FileNotFound,
        format!("`{}` does not exist", place.escape_ascii()),
    )
    .with_field("path")
}

fn failure(place: &[u8], errno: Errno) -> Error {
    Error::io(format!("archive `{}`", place.escape_ascii()), errno.into())
}
