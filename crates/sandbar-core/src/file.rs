//! Files of a session.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;

use crate::{ByteCount, EntryType};

/// Metadata of a directory entry; a symbolic link is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Absolute path inside the sandbox. Any bytes a file name can hold.
    pub path: PathBuf,
    pub entry: EntryType,
    pub size: ByteCount,
    /// Permission bits, with set-uid, set-gid and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified: Timestamp,
    pub symlink_target: Option<PathBuf>,
}

/// Metadata of a directory entry and of the target of a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDetails {
    pub stat: FileStat,
    /// Target of a symbolic link; `None` for other entries and for a dangling link.
    pub link_end: Option<LinkEnd>,
    /// Extended attributes in the `user.` namespace; of the target for a symbolic link.
    pub attributes: BTreeMap<String, Vec<u8>>,
}

/// Target of a symbolic link, after all further links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// Absolute path inside the sandbox, without links.
    pub path: PathBuf,
    pub entry: EntryType,
    pub mode: u32,
}

/// Options for writing a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Permission bits. When absent: those of the replaced file, or 0644.
    pub mode: Option<u32>,
    /// Create missing parent directories.
    pub create_dirs: bool,
    /// Owner of the file and of created directories. When absent, a replaced file keeps its owner,
    /// and new entries belong to root.
    pub owner: Option<(u32, u32)>,
}

/// Options for creating directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MakeDirOptions {
    /// Create missing parent directories.
    pub create_dirs: bool,
    /// Owner of the created directories; root when absent.
    pub owner: Option<(u32, u32)>,
}

/// Counts of an unpacked tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSummary {
    pub entries: u64,
    /// Bytes of file content.
    pub bytes: u64,
}

/// Kind of a change in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirChangeKind {
    /// It was created, or moved in.
    Created,
    /// Its content changed.
    Written,
    /// It was removed.
    Removed,
    /// It was moved out. The wire API reports it as removed.
    Left,
    /// It was renamed.
    Renamed { from: PathBuf },
    /// Its mode, owner, times or extended attributes changed.
    Attributes,
}

/// Change below a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirChange {
    pub kind: DirChangeKind,
    /// Absolute, inside the session.
    pub path: PathBuf,
    pub is_dir: bool,
}

/// Message to a watcher of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirNews {
    Changed(DirChange),
    /// Changes were dropped: list the directory again.
    Overflow,
}
