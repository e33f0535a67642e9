//! One member of an archive, free of how tar spells it.

use std::{ffi::CString, fmt};

use rustix::fs::{FileType, Timespec};

use crate::descent::EntryStat;

/// What kind of member it is, with what only that kind has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Symlink {
        target: Vec<u8>,
    },
    /// Another name for a member that came before.
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
    /// Something this reader has no use for, by its tar type flag.
    Other(u8),
}

/// A stretch of data in a file with holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub offset: u64,
    pub length: u64,
}

/// A member of an archive without its data.
#[derive(Clone)]
pub struct ArchiveEntry {
    /// The name as it stands in the archive: any bytes, perhaps hostile.
    pub path: Vec<u8>,
    pub kind: EntryKind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified: Timespec,
    /// Size of the file, holes included.
    pub size: u64,
    /// Where the data is, in a file with holes; `None` when all of it is data.
    pub segments: Option<Vec<Segment>>,
    pub xattrs: Vec<(CString, Vec<u8>)>,
}

impl ArchiveEntry {
    /// An entry with the metadata of a file on disk. `None` for a socket, which no archive can hold.
    pub(crate) fn from_stat(path: Vec<u8>, stat: &EntryStat, target: impl FnOnce() -> Vec<u8>) -> Option<Self> {
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
            size: if kind == EntryKind::File { stat.size } else { 0 },
            kind,
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            modified: stat.modified,
            segments: None,
            xattrs: Vec::new(),
        })
    }

    /// Bytes of data that follow in the stream, the map of a file with holes not counted.
    pub fn data_size(&self) -> u64 {
        match (&self.kind, &self.segments) {
            (EntryKind::File, Some(segments)) => segments.iter().map(|segment| segment.length).sum(),
            (EntryKind::File | EntryKind::Other(_), None) => self.size,
            _ => 0,
        }
    }

    /// The name for people.
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
