//! Requests that say themselves that they are too large.

use std::time::Duration;

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, header},
    middleware::Next,
    response::Response,
};
use connectrpc::{ConnectError, ErrorCode as RpcCode};
use futures::StreamExt as _;
use sandbar_proto::MAX_MESSAGE_BYTES;
use tokio::time::timeout;

use crate::failure::refusal;

/// What is read of a refused request, so that a caller who sends before it listens still hears the answer.
const DRAIN: usize = 4 * MAX_MESSAGE_BYTES;
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// Answers a unary request above the message limit. Streams have the limit for each message, not as a whole.
pub(crate) async fn refuse_oversized(request: Request, next: Next) -> Response {
    let headers = request.headers();
    if length(headers) <= MAX_MESSAGE_BYTES || is_stream(headers) {
        return next.run(request).await;
    }
    let error = ConnectError::new(
        RpcCode::ResourceExhausted,
        format!("the request is {} bytes long, at most {MAX_MESSAGE_BYTES} are allowed", length(headers)),
    );
    let response = refusal(error, headers);
    hear_out(request).await;
    response
}

/// Reads what is left of a request that is refused.
pub(crate) async fn hear_out(request: Request) {
    // One who asked before sending has sent nothing yet.
    if !request.headers().contains_key(header::EXPECT) {
        let _ = timeout(DRAIN_TIME, drain(request.into_body())).await;
    }
}

fn length(headers: &HeaderMap) -> usize {
    let text = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Whether a request is a stream of messages in envelopes.
pub(crate) fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    kind.starts_with(b"application/connect+") || kind.starts_with(b"application/grpc")
}

async fn drain(body: Body) {
    let mut body = body.into_data_stream();
    let mut read = 0;
    while let Some(Ok(bytes)) = body.next().await {
        read += bytes.len();
        if read > DRAIN {
            break;
        }
    }
}
