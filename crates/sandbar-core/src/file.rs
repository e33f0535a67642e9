//! Files in a session, as callers see them.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;

use crate::{ByteCount, EntryType};

/// What is known about a directory entry; a symbolic link is not followed.
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

/// What is known about a directory entry, and what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDetails {
    pub stat: FileStat,
    /// Where a symbolic link ends; `None` for everything else, and for a link that leads nowhere.
    pub link_end: Option<LinkEnd>,
    /// Extended attributes with a name that begins with `user.`; those of what a symbolic link leads to.
    pub attributes: BTreeMap<String, Vec<u8>>,
}

/// What a symbolic link leads to, through all further links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// Absolute path inside the sandbox, without any link in it.
    pub path: PathBuf,
    pub entry: EntryType,
    pub mode: u32,
}

/// How to write a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Permission bits; those of the file that is replaced, or 0644, when absent.
    pub mode: Option<u32>,
    /// Make missing directories above it.
    pub create_dirs: bool,
    /// User and group of the file and of the directories that are made; absent, a file that is replaced keeps its own, and
    /// what is new belongs to root.
    pub owner: Option<(u32, u32)>,
}

/// How to make directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MakeDirOptions {
    /// Make missing directories above it.
    pub create_dirs: bool,
    /// User and group of the directories that are made; root when absent.
    pub owner: Option<(u32, u32)>,
}

/// What unpacking a tree made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSummary {
    pub entries: u64,
    /// Bytes of file content.
    pub bytes: u64,
}

/// What happened to an entry of a directory that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirChangeKind {
    /// It was made, or came from outside the directory.
    Created,
    /// Its content changed.
    Written,
    /// It was removed.
    Removed,
    /// It went out of the directory. The wire API tells it as removed.
    Left,
    /// It has another name.
    Renamed { from: PathBuf },
    /// Its mode, owner, times or extended attributes changed.
    Attributes,
}

/// A change below a directory that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirChange {
    pub kind: DirChangeKind,
    /// Absolute, inside the session.
    pub path: PathBuf,
    pub is_dir: bool,
}

/// What a watcher of a directory is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirNews {
    Changed(DirChange),
    /// There was too much to tell: the directory has to be looked at anew.
    Overflow,
}
