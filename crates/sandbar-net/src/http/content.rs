//! Bodies on their way through.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::patience::Busy;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Cleanse = Box<dyn Fn(&mut HeaderMap) + Send + Sync>;

/// The body of a request or a response: somebody else's, or a text of ours.
pub(super) struct Content {
    inner: Either<Incoming, Full<Bytes>>,
    cleanse: Option<Cleanse>,
    /// The connection is at work until its last response is out.
    busy: Option<Busy>,
}

impl Content {
    pub(super) fn text(text: String) -> Self {
        Self { inner: Either::Right(Full::from(text)), cleanse: None, busy: None }
    }

    pub(super) fn relayed(body: Incoming) -> Self {
        Self { inner: Either::Left(body), cleanse: None, busy: None }
    }

    /// Trailers are headers too: what is done to those must be done to these.
    pub(super) fn with_trailers_cleansed(mut self, cleanse: impl Fn(&mut HeaderMap) + Send + Sync + 'static) -> Self {
        self.cleanse = Some(Box::new(cleanse));
        self
    }

    pub(super) fn while_busy(mut self, busy: Busy) -> Self {
        self.busy = Some(busy);
        self
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let mut frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        if let (Some(Ok(frame)), Some(cleanse)) = (&mut frame, &this.cleanse)
            && let Some(trailers) = frame.trailers_mut()
        {
            cleanse(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}
