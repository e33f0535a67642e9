//! Errors of request bodies that are truncated or wrongly encoded.
//!
//! The RPC library reports a body that it cannot read as an internal error. It is an error of the
//! caller, and this middleware maps it to one.

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

use super::oversize::is_stream;

/// Answers a request whose body could not be read with `InvalidArgument`.
pub(crate) async fn map_body_errors(request: Request, next: Next) -> Response {
    let is_broken = Arc::new(AtomicBool::new(false));
    let headers = request.headers().clone();
    let watch = |body: Body| {
        Body::from_stream(Watched {
            body: body.into_data_stream(),
            is_broken: Arc::clone(&is_broken),
        })
    };
    let response = next.run(request.map(watch)).await;
    // Streams and gRPC report errors inside a response with status 200.
    let may_report_internal = response.status().is_server_error() || is_stream(&headers);
    if !may_report_internal || !is_broken.load(Ordering::Relaxed) {
        return response;
    }
    let error = Error::invalid(
        "body",
        "request body is truncated, or not encoded as its headers say",
    )
    .with_hint("send as many bytes as `content-length` says, or well-formed chunks");
    to_connect(&error, None)
        .into_http_response(&headers)
        .map(Body::new)
        .into_response()
}

/// Body that records whether reading it failed.
struct Watched {
    body: BodyDataStream,
    is_broken: Arc<AtomicBool>,
}

impl Stream for Watched {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.body.poll_next_unpin(context));
        if matches!(next, Some(Err(_))) {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        Poll::Ready(next)
    }
}
