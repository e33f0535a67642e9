//! POSIX tar streams of trees, written and read.
//!
//! [`ArchiveWriter`] writes pax archives that GNU tar, libarchive and container tools read: any
//! byte in a name, nanoseconds, extended attributes, hard links, holes, devices. [`ArchiveReader`]
//! reads v7, ustar, pax and GNU archives, and [`Unpacker`] unpacks them into a directory.
//!
//! Invariant: unpacking touches nothing outside its root, whatever the archive contains. Every path
//! is resolved by the kernel (`openat2`) below the root's descriptor; no defence depends on a check
//! of strings alone.

mod compression;
mod entry;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod limits;
mod owners;
mod pax;
mod reader;
mod sparse;
mod tree;
mod unpack;
mod whiteout;
mod writer;

pub use compression::{Compression, decompress};
pub use entry::{ArchiveEntry, EntryKind, Segment};
pub use limits::{CheckedReader, Limits};
pub use reader::ArchiveReader;
pub use unpack::{
    Devices, Directories, Links, UnpackOptions, UnpackSummary, Unpacker, Whiteouts, Zeros,
    unpack_owner,
};
pub use writer::{ArchiveWriter, WriteSummary};
