//! The difference between two trees, entry by entry.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryType {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

impl EntryType {
    /// Returns the type from the upper bits of `st_mode`.
    pub const fn of_mode(mode: u32) -> Self {
        match mode & 0o170_000 {
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            0o020_000 => Self::CharDevice,
            0o060_000 => Self::BlockDevice,
            _ => Self::File,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::CharDevice => "char-device",
            Self::BlockDevice => "block-device",
        }
    }
}

/// Kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

impl ChangeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        }
    }
}

/// Property of an entry that can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    Type,
    Content,
    Mode,
    Owner,
    Xattrs,
    /// Only the modification time. It is part of a pack, and omitted from the diff of a user.
    Time,
}

impl Aspect {
    pub const ALL: [Self; 6] = [
        Self::Type,
        Self::Content,
        Self::Mode,
        Self::Owner,
        Self::Xattrs,
        Self::Time,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Content => "content",
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::Xattrs => "xattrs",
            Self::Time => "time",
        }
    }
}

/// A set of [`Aspect`]s.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Aspects(u8);

impl Aspects {
    pub const NONE: Self = Self(0);

    #[must_use]
    pub const fn with(self, aspect: Aspect) -> Self {
        Self(self.0 | 1 << aspect as u8)
    }

    pub const fn contains(self, aspect: Aspect) -> bool {
        self.0 & 1 << aspect as u8 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether only the time differs.
    pub const fn only_time(self) -> bool {
        self.0 == 1 << Aspect::Time as u8
    }

    pub fn iter(self) -> impl Iterator<Item = Aspect> {
        Aspect::ALL
            .into_iter()
            .filter(move |aspect| self.contains(*aspect))
    }
}

impl fmt::Debug for Aspects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// One difference between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Absolute path inside the sandbox. Any bytes a file name can hold.
    pub path: PathBuf,
    pub kind: ChangeKind,
    /// Type of the entry after the change, or of the deleted one.
    pub entry: EntryType,
    /// Properties that differ, for a modified entry.
    pub aspects: Aspects,
    /// Size of a regular file after the change; 0 otherwise.
    pub size: u64,
}
