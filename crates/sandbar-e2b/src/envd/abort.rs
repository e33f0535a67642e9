//! Aborting a streaming response.
//!
//! SDKs take a stream that ends for a call that has completed, successfully or with an error of
//! envd. When the sandbox itself is gone the response has to be aborted, as it is where the sandbox
//! is a virtual machine: HTTP/1.1 closes the connection in the middle of the body, HTTP/2 resets
//! the stream. The SDK then checks whether the sandbox still exists.
//!
//! Over HTTP/1.1, Python SDKs on httpcore (up to 2.3x) expect a closed connection, those on
//! connectrpc (2.45) a TCP reset, and the newest accept either.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
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
use http::{HeaderMap, Version, header};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Requests a TCP reset when a connection is closed. The connection handler inserts it into the
/// extensions of every request and resets the connection if it is set.
#[derive(Clone, Debug, Default)]
pub struct ResetOnClose(Arc<AtomicBool>);

impl ResetOnClose {
    /// Returns whether the connection has to be reset when it is closed.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn request(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Aborts the response to one request. Every request to the services of envd carries it in its
/// extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct Abort {
    aborted: CancellationToken,
    /// Set for an HTTP/1 connection, which carries only this response.
    connection: Option<ResetOnClose>,
}

impl Abort {
    /// Returns the handle for the call a handler works on.
    pub(super) fn of(context: &RequestContext) -> Self {
        context.extensions().get().cloned().unwrap_or_default()
    }

    /// Aborts the response after what was already written. Never returns.
    pub(super) async fn now(&self) -> Infallible {
        if let Some(connection) = &self.connection {
            connection.request();
        }
        self.aborted.cancel();
        std::future::pending().await
    }
}

/// Middleware that makes streaming responses abortable.
pub(super) async fn make_abortable(mut request: Request, next: Next) -> Response {
    if !is_stream(request.headers()) {
        return next.run(request).await;
    }
    let is_multiplexed = request.version() == Version::HTTP_2;
    let wants_reset = !is_multiplexed && wants_reset(request.headers());
    let connection = request.extensions().get().filter(|_| wants_reset).cloned();
    let abort = Abort {
        aborted: CancellationToken::new(),
        connection,
    };
    request.extensions_mut().insert(abort.clone());
    let aborted = Box::pin(abort.aborted.cancelled_owned());
    next.run(request).await.map(|body| {
        Body::from_stream(AbortableBody {
            body: body.into_data_stream(),
            aborted,
        })
    })
}

/// Returns whether an SDK expects a TCP reset when the sandbox is gone.
fn wants_reset(headers: &HeaderMap) -> bool {
    headers
        .get(header::USER_AGENT)
        .is_some_and(|agent| agent.as_bytes().starts_with(b"connectrpc/"))
}

/// Returns whether a call streams its request or response.
pub(super) fn is_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/connect+"))
}

struct AbortableBody {
    body: BodyDataStream,
    aborted: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Stream for AbortableBody {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.body.poll_next_unpin(context);
        if next.is_pending() && self.aborted.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new("the sandbox is gone"))));
        }
        next
    }
}
