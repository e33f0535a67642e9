//! Bodies that break off, or are not coded as their headers say.
//!
//! The RPC library calls a body it cannot read a fault of the server's. It is the caller's.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, BodyDataStream},
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use sandbar_core::Error;
use sandbar_proto::to_connect;

use crate::oversize::is_stream;

/// Answers a call whose body could not be read as the bad request it is.
pub(crate) async fn blame_torn_bodies(request: Request, next: Next) -> Response {
    let is_torn = Arc::new(AtomicBool::new(false));
    let headers = request.headers().clone();
    let watch =
        |body: Body| Body::from_stream(Watched { body: body.into_data_stream(), is_torn: Arc::clone(&is_torn) });
    let response = next.run(request.map(watch)).await;
    // Streams and gRPC say inside an answer of 200 what went wrong.
    let may_blame_us = response.status().is_server_error() || is_stream(&headers);
    if !may_blame_us || !is_torn.load(Ordering::Relaxed) {
        return response;
    }
    let error = Error::invalid("body", "the body of the request breaks off, or is not coded as its headers say")
        .with_hint("send as many bytes as `content-length` says, or chunks that are well formed");
    to_connect(&error, None).into_http_response(&headers).map(Body::new).into_response()
}

/// A body that remembers whether it broke.
struct Watched {
    body: BodyDataStream,
    is_torn: Arc<AtomicBool>,
}

impl Stream for Watched {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.body.poll_next_unpin(context));
        if matches!(next, Some(Err(_))) {
            self.is_torn.store(true, Ordering::Relaxed);
        }
        Poll::Ready(next)
    }
}
