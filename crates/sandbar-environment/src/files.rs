//! Files on their way in and out.

use bytes::Bytes;
use futures::stream::BoxStream;
use sandbar_core::FileStat;

use crate::Result;

/// The content of a file, piece by piece.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// The entries of a directory, sorted by path.
pub type FileStream = BoxStream<'static, Result<FileStat>>;

/// A file that is being read. Dropping it ends the reading.
pub struct FileContent {
    pub stat: FileStat,
    pub content: ByteStream,
}

impl std::fmt::Debug for FileContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileContent").field("stat", &self.stat).finish_non_exhaustive()
    }
}
