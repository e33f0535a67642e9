//! Options of unpacking, and its summary.

use std::fmt;

use rustix::process::{getegid, geteuid};

use sandbar_core::Result;

use crate::archive::{ArchiveEntry, Limits};

/// Handling of symbolic links in the parent directories of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Follow them, with the root of the tree as `/`. Image layers rely on it: `lib -> usr/lib` in
    /// one layer, `lib/x` in the next.
    FollowInRoot,
    /// An entry below a symbolic link is an error.
    Refuse,
}

/// Handling of an existing directory where the archive has another type of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directories {
    /// Remove it with its content.
    Replace,
    /// Remove it only if it is empty; otherwise fail.
    Keep,
}

/// Interpretation of names that begin with `.wh.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whiteouts {
    /// Ordinary names.
    Ordinary,
    /// Deletions: the archive is an image layer.
    Oci,
}

/// Handling of blocks of zeros in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    Write,
    /// Leave holes.
    Skip,
}

/// Handling of device nodes in the archive. Overlay whiteouts, devices 0/0, are always left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// Create them, as far as the caller may.
    Make,
    /// Leave them out, with a note: on the disk of the host they are devices of the machine.
    LeaveOut,
}

/// Options of an [`Unpacker`](super::Unpacker).
#[derive(Clone, Copy)]
pub struct UnpackOptions<'a> {
    pub links: Links,
    pub directories: Directories,
    pub whiteouts: Whiteouts,
    pub zeros: Zeros,
    pub devices: Devices,
    pub limits: Limits,
    /// Uid and gid for all entries; `None` keeps the owners in the archive, as far as the caller
    /// may set them.
    pub owner: Option<(u32, u32)>,
    /// Called often with the entries and bytes unpacked so far.
    pub progress: &'a dyn Fn(u64, u64),
    /// Called for each entry and each piece of data; its error ends the work.
    pub check: &'a dyn Fn() -> Result<()>,
    /// Called for each entry before it is unpacked: may change it, and returns whether to unpack
    /// it.
    pub select: &'a dyn Fn(&mut ArchiveEntry) -> bool,
}

impl UnpackOptions<'_> {
    /// For untrusted archives into a directory that may not be empty: entries below symbolic links
    /// are refused, directories with content are not replaced, and devices are left out.
    pub const CAREFUL: UnpackOptions<'static> = UnpackOptions {
        links: Links::Refuse,
        directories: Directories::Keep,
        whiteouts: Whiteouts::Ordinary,
        zeros: Zeros::Write,
        devices: Devices::LeaveOut,
        limits: Limits::DEFAULT,
        owner: None,
        progress: &|_, _| {},
        check: &|| Ok(()),
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
            .field("devices", &self.devices)
            .field("limits", &self.limits)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// Result of unpacking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnpackSummary {
    pub entries: u64,
    /// Sizes of the regular files.
    pub bytes: u64,
    /// Number of entries and attributes that could not be created.
    pub omitted: u64,
    /// Descriptions of the first few of them.
    pub notes: Vec<String>,
}

impl UnpackSummary {
    const MAX_NOTES: usize = 20;

    pub(in crate::archive) fn note(&mut self, note: impl FnOnce() -> String) {
        self.omitted += 1;
        if self.notes.len() < Self::MAX_NOTES {
            self.notes.push(note());
        }
    }
}

/// Owner for unpacked files: `None`, which keeps the owners in the archive, for root; the caller
/// itself for an ordinary user, which cannot set another.
pub fn unpack_owner() -> Option<(u32, u32)> {
    let user = geteuid();
    (!user.is_root()).then(|| (user.as_raw(), getegid().as_raw()))
}
