//! Trees as POSIX tar streams, in both directions.
//!
//! [`ArchiveWriter`] writes what GNU tar, libarchive and container tools read: any byte in a name, nanoseconds,
//! extended attributes, hard links, holes, devices. [`ArchiveReader`] reads what they write, and [`Unpacker`] puts it
//! into a directory.
//!
//! Invariant: unpacking reaches nothing outside the root it was given, whatever the archive says. Every path is
//! resolved by the kernel from the root's descriptor, and no check is made on strings alone.

mod compression;
mod entry;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
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
pub use reader::ArchiveReader;
pub use unpack::{Directories, Limits, Links, UnpackOptions, UnpackSummary, Unpacker, Whiteouts, Zeros};
pub use writer::{ArchiveWriter, WriteSummary};
