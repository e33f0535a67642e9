//! Size limit of unary requests.

use axum::{
    extract::Request,
    http::{HeaderMap, header},
    middleware::Next,
    response::Response,
};
use connectrpc::{ConnectError, ErrorCode as RpcCode};
use sandbar_proto::MAX_MESSAGE_BYTES;

use super::drain_body::drain_body;
use crate::rpc::errors::error_response;

/// Rejects unary requests whose `content-length` exceeds the message limit. In streams the limit
/// applies to each message.
pub(crate) async fn reject_oversized(request: Request, next: Next) -> Response {
    let headers = request.headers();
    if content_length(headers) <= MAX_MESSAGE_BYTES || is_stream(headers) {
        return next.run(request).await;
    }
    let error = ConnectError::new(
        RpcCode::ResourceExhausted,
        format!(
            "request is {} bytes long, at most {MAX_MESSAGE_BYTES} are allowed",
            content_length(headers)
        ),
    );
    let response = error_response(error, headers);
    drain_body(request).await;
    response
}

fn content_length(headers: &HeaderMap) -> usize {
    let text = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Reports whether the body is a stream of enveloped messages.
pub(crate) fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], |kind| kind.as_bytes());
    kind.starts_with(b"application/connect+") || kind.starts_with(b"application/grpc")
}
