//! Limits on the content of an archive, and the stream that enforces those on bytes read.

use std::{
    fmt,
    io::{self, Read},
};

use sandbar_core::{Error, ErrorCode, Result};

/// Limits on the content of an archive. The error of each names it and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub entries: u64,
    /// Data of all files in total.
    pub bytes: u64,
    /// Bytes of the decompressed stream: data, headers, padding, and what is skipped.
    pub stream: u64,
    /// Bytes of the names and link targets of one archive.
    pub names: u64,
    /// Bytes of the extended attributes of one archive, their names included.
    pub attributes: u64,
    /// Extended attributes of one entry.
    pub attributes_per_entry: u64,
    /// Components in the path of one entry.
    pub depth: u64,
}

impl Limits {
    /// For archives of unknown origin. They bound the memory of the host, not the disk: the quota
    /// of the session does that.
    pub const DEFAULT: Self = Self {
        entries: 2_000_000,
        bytes: 1 << 40,
        stream: 5 << 38,
        names: 256 << 20,
        attributes: 64 << 20,
        attributes_per_entry: 1000,
        depth: 4096,
    };

    /// For images and root file systems that become bases, which have no quota.
    pub const BASE: Self = Self {
        bytes: 128 << 30,
        stream: 160 << 30,
        ..Self::DEFAULT
    };

    /// For archives that this program wrote, and whose digest was checked.
    pub const NONE: Self = Self {
        entries: u64::MAX,
        bytes: u64::MAX,
        stream: u64::MAX,
        names: u64::MAX,
        attributes: u64::MAX,
        attributes_per_entry: u64::MAX,
        depth: u64::MAX,
    };
}

/// Error of an archive that exceeds a limit.
pub(crate) fn exceeded(what: impl fmt::Display) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!("archive holds more than {what}"),
    )
    .with_hint("split it into smaller archives, or remove what is not needed")
}

/// Adds to a total, and fails when it exceeds its limit.
pub(super) fn add(total: &mut u64, more: usize, limit: u64, what: &str) -> Result<()> {
    *total = total.saturating_add(more as u64);
    if *total > limit {
        return Err(exceeded(format_args!("{limit} {what}")));
    }
    Ok(())
}

/// Stream that fails beyond a limit of bytes.
#[derive(Debug)]
pub(super) struct BoundedStream<R> {
    stream: R,
    pub(super) read: u64,
    pub(super) limit: u64,
}

impl<R: Read> BoundedStream<R> {
    pub(super) fn new(stream: R) -> Self {
        Self {
            stream,
            read: 0,
            limit: Limits::DEFAULT.stream,
        }
    }
}

impl<R: Read> Read for BoundedStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.stream.read(buffer)?;
        self.read = self.read.saturating_add(got as u64);
        if self.read > self.limit {
            let what = format!("{} decompressed bytes", self.limit);
            return Err(io::Error::other(exceeded(what)));
        }
        Ok(got)
    }
}

/// Reader that calls a function before each read and fails with its error, so that work on a stream
/// can be cancelled wherever it is read.
pub struct CheckedReader<'a, R> {
    stream: R,
    check: &'a dyn Fn() -> Result<()>,
}

impl<'a, R: Read> CheckedReader<'a, R> {
    pub fn new(stream: R, check: &'a dyn Fn() -> Result<()>) -> Self {
        Self { stream, check }
    }
}

impl<R> fmt::Debug for CheckedReader<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedReader").finish_non_exhaustive()
    }
}

impl<R: Read> Read for CheckedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.check)().map_err(io::Error::other)?;
        self.stream.read(buffer)
    }
}
