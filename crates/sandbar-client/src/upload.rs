//! Uploads from a reader. A source that fails is never taken for a complete one.

use std::{
    io,
    sync::{Arc, Mutex},
};

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream};
use sandbar_core::{Error, MutexExt as _, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Content bytes in one message.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Part of an upload.
pub(crate) enum Part {
    Data(Bytes),
    Finish,
}

/// Slot for the error of the source, which the request stream itself cannot carry.
#[derive(Clone, Default)]
pub(crate) struct SourceFailure(Arc<Mutex<Option<io::Error>>>);

impl SourceFailure {
    fn set(&self, error: io::Error) {
        *self.0.lock_unpoisoned() = Some(error);
    }

    /// Returns the outcome of a call. An error of the source takes precedence, as it causes the
    /// others.
    pub(crate) fn explain<T>(&self, outcome: Result<T>) -> Result<T> {
        match self.0.lock_unpoisoned().take() {
            Some(error) => Err(Error::io("read the upload source", error)),
            None => outcome,
        }
    }
}

/// Returns the content of `source` in chunks, then `Finish`. A source that fails ends the stream
/// without `Finish`, so that the server discards the upload.
pub(crate) fn parts<R>(
    source: R,
    failure: SourceFailure,
) -> impl Stream<Item = Part> + Send + 'static
where
    R: AsyncRead + Send + Unpin + 'static,
{
    stream::unfold(Some((source, failure)), |state| async move {
        let (mut source, failure) = state?;
        let mut buffer = BytesMut::with_capacity(CHUNK_BYTES);
        match source.read_buf(&mut buffer).await {
            Ok(0) => Some((Some(Part::Finish), None)),
            Ok(_) => Some((Some(Part::Data(buffer.freeze())), Some((source, failure)))),
            Err(error) => {
                failure.set(error);
                None
            }
        }
    })
    .filter_map(std::future::ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_source_that_fails_never_says_finish() {
        let failure = SourceFailure::default();
        let source = reader_of(vec![
            Ok(Bytes::from_static(b"half")),
            Err(io::Error::other("torn")),
        ]);
        let parts: Vec<_> = parts(source, failure.clone()).collect().await;
        assert!(matches!(&parts[..], [Part::Data(bytes)] if bytes == "half"));
        assert_eq!(
            failure.explain(Ok(())).unwrap_err().chain(),
            "read the upload source: torn"
        );
    }

    #[tokio::test]
    async fn a_whole_source_ends_with_finish() {
        let failure = SourceFailure::default();
        let parts: Vec<_> = parts(&b"abc"[..], failure.clone()).collect().await;
        assert!(matches!(&parts[..], [Part::Data(bytes), Part::Finish] if bytes == "abc"));
        failure.explain(Ok(())).unwrap();
    }

    fn reader_of(pieces: Vec<io::Result<Bytes>>) -> impl AsyncRead + Send + Unpin + 'static {
        tokio_util::io::StreamReader::new(stream::iter(pieces))
    }
}
