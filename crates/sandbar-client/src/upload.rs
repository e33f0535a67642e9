//! Sending what a reader gives, without mistaking a torn source for a whole one.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream};
use sandbar_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes of one message.
pub(crate) const PIECE: usize = 256 << 10;

/// One step of an upload.
pub(crate) enum Part {
    Data(Bytes),
    Finish,
}

/// Where a failure of the source is left, since the request stream itself cannot carry one.
#[derive(Clone, Default)]
pub(crate) struct SourceFailure(Arc<Mutex<Option<io::Error>>>);

impl SourceFailure {
    fn set(&self, error: io::Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// The outcome of a call: that the source failed explains every other failure.
    pub(crate) fn explain<T>(&self, outcome: Result<T>) -> Result<T> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(Error::io("read what was to be sent", error)),
            None => outcome,
        }
    }
}

/// The content of `source` in pieces, then `Finish`; a source that fails ends the stream without it, so that the server
/// drops what it has.
pub(crate) fn parts<R>(source: R, failure: SourceFailure) -> impl Stream<Item = Part> + Send + 'static
where
    R: AsyncRead + Send + Unpin + 'static,
{
    stream::unfold(Some((source, failure)), |state| async move {
        let (mut source, failure) = state?;
        let mut buffer = BytesMut::with_capacity(PIECE);
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
        let source = reader_of(vec![Ok(Bytes::from_static(b"half")), Err(io::Error::other("torn"))]);
        let parts: Vec<_> = parts(source, failure.clone()).collect().await;
        assert!(matches!(&parts[..], [Part::Data(bytes)] if bytes == "half"));
        assert_eq!(failure.explain(Ok(())).unwrap_err().chain(), "read what was to be sent: torn");
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
