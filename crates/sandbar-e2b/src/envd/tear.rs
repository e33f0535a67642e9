//! Answers that break off.
//!
//! An SDK takes a stream that ends for a call that has ended, well or with an error of envd's. When the sandbox itself is
//! gone the stream has to break, as it does where the sandbox is a machine of its own: HTTP/1.1 closes the connection in the
//! middle of the body, HTTP/2 resets the stream. The SDK then looks whether the sandbox is still there.
//!
//! Over HTTP/1.1 Python SDKs differ in what they take for that: those on httpcore (up to 2.3x) a connection that is closed,
//! those on connectrpc (2.45) one that is reset, and the newest either.

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

/// Asks for a TCP reset when a connection is closed. What serves the connection puts it among the extensions of every
/// request, and does what is asked for.
#[derive(Clone, Debug, Default)]
pub struct ResetOnClose(Arc<AtomicBool>);

impl ResetOnClose {
    /// Whether the connection is to be reset when it is closed.
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Tears the answer to one request. Every request of envd's services carries it among its extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct Tear {
    torn: CancellationToken,
    /// Of a connection that has no other answers on it.
    connection: Option<ResetOnClose>,
}

impl Tear {
    /// That of the call a handler works on.
    pub(super) fn of(context: &RequestContext) -> Self {
        context.extensions().get().cloned().unwrap_or_default()
    }

    /// Breaks the answer off where it is. What was written before gets out, and it never comes back.
    pub(super) async fn now(&self) -> Infallible {
        if let Some(connection) = &self.connection {
            connection.ask();
        }
        self.torn.cancel();
        std::future::pending().await
    }
}

/// Gives a stream the means to tear its answer.
pub(super) async fn make_tearable(mut request: Request, next: Next) -> Response {
    if !is_stream(request.headers()) {
        return next.run(request).await;
    }
    let is_shared = request.version() == Version::HTTP_2;
    let wants_reset = !is_shared && wants_reset(request.headers());
    let connection = request.extensions().get().filter(|_| wants_reset).cloned();
    let tear = Tear { torn: CancellationToken::new(), connection };
    request.extensions_mut().insert(tear.clone());
    let torn = Box::pin(tear.torn.cancelled_owned());
    next.run(request).await.map(|body| Body::from_stream(Tearable { body: body.into_data_stream(), torn }))
}

/// Whether an SDK expects the connection of a sandbox that is gone to be reset.
fn wants_reset(headers: &HeaderMap) -> bool {
    headers.get(header::USER_AGENT).is_some_and(|agent| agent.as_bytes().starts_with(b"connectrpc/"))
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
