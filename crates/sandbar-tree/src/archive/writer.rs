//! Writer of tar streams.

use std::{
    collections::HashMap,
    io::{Read, Write},
    sync::Arc,
};

use sandbar_core::{Error, OwnerMap, Result};
use tar::{EntryType, Header};

use super::{
    entry::{ArchiveEntry, EntryKind},
    pax::{Records, format_time},
    sparse::encode_map,
};
use crate::descent::Identity;

/// Largest size and time in the octal field of a ustar header.
const MAX_OCTAL_SIZE: u64 = 0o77_777_777_777;
/// Largest uid and gid in the octal field of a ustar header.
const MAX_OCTAL_ID: u32 = 0o7_777_777;

/// Result of writing an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteSummary {
    pub entries: u64,
    /// Sizes of the regular files, each hard-linked file once.
    pub bytes: u64,
    /// Sockets, which tar cannot represent.
    pub sockets_skipped: u64,
}

/// Writes POSIX pax archives.
#[derive(Debug)]
pub struct ArchiveWriter<W> {
    stream: W,
    /// Archived name of each file with several hard links.
    pub(super) linked: HashMap<Identity, Vec<u8>>,
    pub(super) summary: WriteSummary,
    /// Owner map of the mount that trees are read through.
    pub(super) owners: Option<Arc<OwnerMap>>,
}

impl<W: Write> ArchiveWriter<W> {
    pub fn new(stream: W) -> Self {
        Self {
            stream,
            linked: HashMap::new(),
            summary: WriteSummary::default(),
            owners: None,
        }
    }

    /// Sets the owner map of the mount that trees are read through. The archive gets the ids inside
    /// the sandbox.
    #[must_use]
    pub fn with_owners(mut self, owners: Option<Arc<OwnerMap>>) -> Self {
        self.owners = owners;
        self
    }

    pub fn summary(&self) -> WriteSummary {
        self.summary
    }

    /// Writes the end mark and returns the stream.
    pub fn finish(mut self) -> Result<(W, WriteSummary)> {
        self.put(&[0; 1024])?;
        self.stream
            .flush()
            .map_err(|error| Error::io("write the archive", error))?;
        Ok((self.stream, self.summary))
    }

    /// Appends a member. `data` yields [`data_size`](ArchiveEntry::data_size) bytes: for a sparse
    /// file, its segments in sequence. A source that ends early (a file truncated concurrently) is
    /// padded with zeros.
    pub fn append(&mut self, entry: &ArchiveEntry, data: &mut dyn Read) -> Result<()> {
        let map = entry
            .segments
            .as_deref()
            .filter(|_| entry.kind == EntryKind::File)
            .map(encode_map);
        let data_size = if entry.kind == EntryKind::File {
            entry.data_size()
        } else {
            0
        };
        let stored = data_size + map.as_ref().map_or(0, |map| map.len() as u64);
        let records = records(entry, stored, map.is_some());
        if !records.is_empty() {
            let records = records.encode();
            let mut header = Header::new_ustar();
            set_name(&mut header, b"PaxHeaders/entry");
            header.set_mode(0o644);
            header.set_entry_type(EntryType::XHeader);
            header.set_size(records.len() as u64);
            header.set_cksum();
            self.put(header.as_bytes())?;
            self.put(&records)?;
            self.pad(records.len() as u64)?;
        }
        self.put(header(entry, stored, map.is_some()).as_bytes())?;
        if let Some(map) = map {
            self.put(&map)?;
        }
        self.copy(entry, data, data_size)?;
        self.pad(data_size)?;
        self.summary.entries += 1;
        self.summary.bytes += if entry.kind == EntryKind::File {
            entry.size
        } else {
            0
        };
        Ok(())
    }

    fn copy(&mut self, entry: &ArchiveEntry, data: &mut dyn Read, size: u64) -> Result<()> {
        let mut buffer = vec![0; usize::try_from(size.min(128 << 10)).unwrap_or(0)];
        let mut left = size;
        let mut ended = false;
        while left > 0 {
            let wanted = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            let got = match data.read(&mut buffer[..wanted]) {
                _ if ended => wanted,
                Ok(0) => {
                    ended = true;
                    buffer.fill(0);
                    continue;
                }
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::io(format!("read `{}`", entry.display()), error)),
            };
            self.put(&buffer[..got])?;
            left -= got as u64;
        }
        Ok(())
    }

    fn pad(&mut self, size: u64) -> Result<()> {
        let padding = usize::try_from(size.wrapping_neg() % 512).unwrap_or(0);
        self.put(&[0; 512][..padding])
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream
            .write_all(bytes)
            .map_err(|error| Error::io("write the archive", error))
    }
}

/// Returns the name as tar writes it: a directory ends in a slash.
fn archived_name(entry: &ArchiveEntry) -> Vec<u8> {
    let mut name = entry.path.clone();
    if entry.kind == EntryKind::Directory && !name.ends_with(b"/") {
        name.push(b'/');
    }
    name
}

fn link_target(entry: &ArchiveEntry) -> Option<&[u8]> {
    match &entry.kind {
        EntryKind::Symlink { target } | EntryKind::HardLink { target } => Some(target),
        _ => None,
    }
}

/// Returns the extended records for values that do not fit the ustar header.
fn records(entry: &ArchiveEntry, stored: u64, sparse: bool) -> Records {
    let mut records = Records::default();
    let name = archived_name(entry);
    if sparse {
        records.push("GNU.sparse.major", "1");
        records.push("GNU.sparse.minor", "0");
        records.push("GNU.sparse.name", name);
        records.push("GNU.sparse.realsize", entry.size.to_string());
    } else if name.len() > 100 {
        records.push("path", name);
    }
    if let Some(target) = link_target(entry).filter(|target| target.len() > 100) {
        records.push("linkpath", target);
    }
    if stored > MAX_OCTAL_SIZE {
        records.push("size", stored.to_string());
    }
    for (keyword, id) in [("uid", entry.uid), ("gid", entry.gid)] {
        if id > MAX_OCTAL_ID {
            records.push(keyword, id.to_string());
        }
    }
    let time = entry.modified;
    if time.tv_nsec != 0
        || u64::try_from(time.tv_sec).map_or(true, |seconds| seconds > MAX_OCTAL_SIZE)
    {
        records.push("mtime", format_time(time));
    }
    // Attributes of a hard-linked file are stored with its first name.
    if !matches!(entry.kind, EntryKind::HardLink { .. }) {
        for (name, value) in &entry.xattrs {
            records.push_xattr(name, value);
        }
    }
    records
}

fn header(entry: &ArchiveEntry, stored: u64, sparse: bool) -> Header {
    let mut header = Header::new_ustar();
    let name = archived_name(entry);
    if sparse {
        // Readers without support for sparse files show this name.
        set_name(&mut header, b"GNUSparseFile.0/sparse");
    } else {
        set_name(&mut header, &name);
    }
    header.set_entry_type(match entry.kind {
        EntryKind::File => EntryType::Regular,
        EntryKind::Directory => EntryType::Directory,
        EntryKind::Symlink { .. } => EntryType::Symlink,
        EntryKind::HardLink { .. } => EntryType::Link,
        EntryKind::Fifo => EntryType::Fifo,
        EntryKind::CharDevice { .. } => EntryType::Char,
        EntryKind::BlockDevice { .. } => EntryType::Block,
        EntryKind::Other(flag) => EntryType::new(flag),
    });
    header.set_mode(entry.mode);
    header.set_uid(u64::from(entry.uid.min(MAX_OCTAL_ID)));
    header.set_gid(u64::from(entry.gid.min(MAX_OCTAL_ID)));
    header.set_size(stored.min(MAX_OCTAL_SIZE));
    header.set_mtime(
        u64::try_from(entry.modified.tv_sec)
            .unwrap_or(0)
            .min(MAX_OCTAL_SIZE),
    );
    if let Some(ustar) = header.as_ustar_mut() {
        let (major, minor) = match entry.kind {
            EntryKind::CharDevice { major, minor } | EntryKind::BlockDevice { major, minor } => {
                (major, minor)
            }
            _ => (0, 0),
        };
        ustar.set_device_major(major);
        ustar.set_device_minor(minor);
    }
    if let Some(target) = link_target(entry) {
        let field = &mut header.as_old_mut().linkname;
        let length = target.len().min(field.len());
        field[..length].copy_from_slice(&target[..length]);
    }
    header.set_cksum();
    header
}

fn set_name(header: &mut Header, name: &[u8]) {
    let field = &mut header.as_old_mut().name;
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name[..length]);
}
