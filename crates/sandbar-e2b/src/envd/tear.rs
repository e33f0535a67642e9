//! Answers that break off.
//!
//! An SDK takes a stream that ends for a call that has ended, well or with an error of envd's. When the sandbox itself is
//! gone the stream has to break, as it does where the sandbox is a machine of its own: HTTP/1.1 closes the connection in the
//! middle of the body, HTTP/2 resets the stream. The SDK then looks whether the sandbox is still there.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, BodyDataStream},
    extract::Request,
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use connectrpc::RequestContext;
use futures::{Stream, StreamExt as _};
use http::{HeaderMap, header};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Tears the answer to one request. Every request of envd's services carries it among its extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct Tear(CancellationToken);

impl Tear {
    /// That of the call a handler works on.
    pub(super) fn of(context: &RequestContext) -> Self {
        context.extensions().get().cloned().unwrap_or_default()
    }

    /// Breaks the answer off where it is. What was written before gets out, and it never comes back.
    pub(super) async fn now(&self) -> Infallible {
        self.0.cancel();
        std::future::pending().await
    }
}

/// Gives a stream the means to tear its answer.
pub(super) async fn make_tearable(mut request: Request, next: Next) -> Response {
    if !is_stream(request.headers()) {
        return next.run(request).await;
    }
    let tear = Tear::default();
    request.extensions_mut().insert(tear.clone());
    let torn = Box::pin(tear.0.cancelled_owned());
    next.run(request).await.map(|body| Body::from_stream(Tearable { body: body.into_data_stream(), torn }))
}

/// Whether a call is answered by a stream, or asks by one.
pub(super) fn is_stream(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/connect+"))
}

struct Tearable {
    body: BodyDataStream,
    torn: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Stream for Tearable {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.body.poll_next_unpin(context);
        if next.is_pending() && self.torn.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new("the sandbox is gone"))));
        }
        next
    }
}
