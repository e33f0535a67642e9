//! Files in a session, as callers see them.

use std::path::PathBuf;

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

/// How to write a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Permission bits; those of the file that is replaced, or 0644, when absent.
    pub mode: Option<u32>,
    /// Make missing directories above it.
    pub create_dirs: bool,
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
    /// It was removed, or went out of the directory.
    Removed,
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
