//! Bodies of forwarded requests and responses.

use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::{idle_timer::ActiveRequest, tasks::Tasks};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type TrailerFilter = Box<dyn Fn(&mut HeaderMap) + Send + Sync>;

/// Body of a request or a response: forwarded, or a text of the gateway.
pub(super) struct RelayedBody {
    inner: Either<Incoming, Full<Bytes>>,
    trailer_filter: Option<TrailerFilter>,
    /// Keeps the connection from being idle until the response is sent.
    active: Option<ActiveRequest>,
    /// Runs the task that reads the rest of a body that was dropped unread.
    drain_tasks: Option<Tasks>,
}

/// Bytes of an unread body that are read and discarded.
const MAX_DRAINED_BYTES: usize = 16 * 1024 * 1024;

impl RelayedBody {
    pub(super) fn text(text: String) -> Self {
        Self {
            inner: Either::Right(Full::from(text)),
            trailer_filter: None,
            active: None,
            drain_tasks: None,
        }
    }

    pub(super) fn relayed(body: Incoming) -> Self {
        Self {
            inner: Either::Left(body),
            trailer_filter: None,
            active: None,
            drain_tasks: None,
        }
    }

    /// Applies `filter` to the trailers. They can carry any header field, so that filters for
    /// headers must apply to them too.
    pub(super) fn with_trailer_filter(
        mut self,
        trailer_filter: impl Fn(&mut HeaderMap) + Send + Sync + 'static,
    ) -> Self {
        self.trailer_filter = Some(Box::new(trailer_filter));
        self
    }

    /// Reads the rest of the body if it is dropped unread. A client that is still sending would
    /// otherwise find a closed connection instead of the response.
    pub(super) fn drained_by(mut self, tasks: &Tasks) -> Self {
        self.drain_tasks = Some(tasks.clone());
        self
    }

    pub(super) fn while_active(mut self, active: ActiveRequest) -> Self {
        self.active = Some(active);
        self
    }
}

impl Body for RelayedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let mut frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        if let (Some(Ok(frame)), Some(trailer_filter)) = (&mut frame, &this.trailer_filter)
            && let Some(trailers) = frame.trailers_mut()
        {
            trailer_filter(trailers);
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

impl Drop for RelayedBody {
    fn drop(&mut self) {
        let Some(tasks) = self
            .drain_tasks
            .take()
            .filter(|_| !self.inner.is_end_stream())
        else {
            return;
        };
        if let Either::Left(body) = mem::replace(&mut self.inner, Either::Right(Full::default())) {
            tasks.spawn(drain(body));
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut drained = 0;
    while let Some(Ok(frame)) = body.frame().await {
        drained += frame.data_ref().map_or(0, Bytes::len);
        if drained > MAX_DRAINED_BYTES {
            return;
        }
    }
}

impl fmt::Debug for RelayedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayedBody").finish_non_exhaustive()
    }
}
