//! Bodies on their way through.

use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::{patience::Busy, tasks::Tasks};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Cleanse = Box<dyn Fn(&mut HeaderMap) + Send + Sync>;

/// The body of a request or a response: somebody else's, or a text of ours.
pub(super) struct Content {
    inner: Either<Incoming, Full<Bytes>>,
    cleanse: Option<Cleanse>,
    /// The connection is at work until its last response is out.
    busy: Option<Busy>,
    /// Where what nobody reads is read to its end.
    rest: Option<Tasks>,
}

/// More than this is not read only to be thrown away.
const MOST_DRAINED: usize = 16 * 1024 * 1024;

impl Content {
    pub(super) fn text(text: String) -> Self {
        Self { inner: Either::Right(Full::from(text)), cleanse: None, busy: None, rest: None }
    }

    pub(super) fn relayed(body: Incoming) -> Self {
        Self { inner: Either::Left(body), cleanse: None, busy: None, rest: None }
    }

    /// Trailers are headers too: what is done to those must be done to these.
    pub(super) fn with_trailers_cleansed(mut self, cleanse: impl Fn(&mut HeaderMap) + Send + Sync + 'static) -> Self {
        self.cleanse = Some(Box::new(cleanse));
        self
    }

    /// Reads what is left when nobody else will. A client that is still sending does not listen, and would find a closed
    /// connection in place of the answer.
    pub(super) fn drained_by(mut self, tasks: &Tasks) -> Self {
        self.rest = Some(tasks.clone());
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

impl Drop for Content {
    fn drop(&mut self) {
        let Some(tasks) = self.rest.take().filter(|_| !self.inner.is_end_stream()) else { return };
        if let Either::Left(body) = mem::replace(&mut self.inner, Either::Right(Full::default())) {
            tasks.spawn(drain(body));
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut drained = 0;
    while let Some(Ok(frame)) = body.frame().await {
        drained += frame.data_ref().map_or(0, Bytes::len);
        if drained > MOST_DRAINED {
            return;
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}
