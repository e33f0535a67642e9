//! One member of an archive, independent of its tar encoding.

use std::{ffi::CString, fmt};

use rustix::fs::{FileType, Timespec};

use crate::descent::EntryStat;

/// Type of a member, with the fields only that type has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Symlink {
        target: Vec<u8>,
    },
    /// Another name for an earlier member.
    HardLink {
        target: Vec<u8>,
    },
    Fifo,
    CharDevice {
        major: u32,
        minor: u32,
    },
    BlockDevice {
        major: u32,
        minor: u32,
    },
    /// Unsupported type, by its tar type flag.
    Other(u8),
}

/// Data between two holes of a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub offset: u64,
    pub length: u64,
}

/// Member of an archive without its data.
#[derive(Clone)]
pub struct ArchiveEntry {
    /// Name as in the archive: any bytes, not validated.
    pub path: Vec<u8>,
    pub kind: EntryKind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified: Timespec,
    /// Size of the file, holes included.
    pub size: u64,
    /// Data segments of a sparse file; `None` when the file has no holes.
    pub segments: Option<Vec<Segment>>,
    pub xattrs: Vec<(CString, Vec<u8>)>,
}

impl ArchiveEntry {
    /// Builds an entry from the metadata of a file on disk. `None` for a socket, which tar cannot
    /// represent.
    pub(crate) fn from_stat(
        path: Vec<u8>,
        stat: &EntryStat,
        target: impl FnOnce() -> Vec<u8>,
    ) -> Option<Self> {
        let (major, minor) = stat.node;
        let kind = match stat.kind {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Symlink { target: target() },
            FileType::Fifo => EntryKind::Fifo,
            FileType::CharacterDevice => EntryKind::CharDevice { major, minor },
            FileType::BlockDevice => EntryKind::BlockDevice { major, minor },
            FileType::Socket | FileType::Unknown => return None,
        };
        Some(Self {
            path,
            size: if kind == EntryKind::File {
                stat.size
            } else {
                0
            },
            kind,
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            modified: stat.modified,
            segments: None,
            xattrs: Vec::new(),
        })
    }

    /// Returns the bytes of data that follow in the stream, without the sparse map.
    pub fn data_size(&self) -> u64 {
        match (&self.kind, &self.segments) {
            (EntryKind::File, Some(segments)) => {
                segments.iter().map(|segment| segment.length).sum()
            }
            (EntryKind::File | EntryKind::Other(_), None) => self.size,
            _ => 0,
        }
    }

    /// Returns the name for messages.
    pub fn display(&self) -> impl fmt::Display + '_ {
        self.path.escape_ascii()
    }
}

impl fmt::Debug for ArchiveEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchiveEntry")
            .field("path", &format_args!("{}", self.display()))
            .field("kind", &self.kind)
            .field("mode", &format_args!("{:o}", self.mode))
            .field("owner", &(self.uid, self.gid))
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
