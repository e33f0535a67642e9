//! File contents and listings as streams.

use bytes::Bytes;
use futures::stream::BoxStream;
use sandbar_core::FileStat;

use crate::Result;

/// Content of a file in chunks.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// Entries of a directory, sorted by path.
pub type FileStream = BoxStream<'static, Result<FileStat>>;

/// A file being read. Dropping it cancels the read.
pub struct FileContent {
    pub stat: FileStat,
    pub content: ByteStream,
}

impl std::fmt::Debug for FileContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileContent")
            .field("stat", &self.stat)
            .finish_non_exhaustive()
    }
}
