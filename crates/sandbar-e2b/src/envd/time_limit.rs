//! How long a call may take.
//!
//! For a stream that is the time of the command, which is ended with it, and none at all is spelled `0`: both are not what
//! the library makes of the header. So it does not get to see it.

use std::time::Duration;

use axum::{extract::Request, middleware::Next, response::Response};
use connectrpc::{ConnectError, RequestContext};
use http::{HeaderName, HeaderValue};

use super::tear::is_stream;

const TIMEOUT: HeaderName = HeaderName::from_static("connect-timeout-ms");

/// The header of a call, as it was sent.
#[derive(Clone, Debug)]
pub(super) struct TimeLimit(HeaderValue);

impl TimeLimit {
    /// How long the stream a handler works on may take; `None` is as long as it likes.
    pub(super) fn of(context: &RequestContext) -> Result<Option<Duration>, ConnectError> {
        let Some(Self(value)) = context.extensions().get() else { return Ok(None) };
        let text = String::from_utf8_lossy(value.as_bytes());
        let milliseconds: i64 = text.parse().map_err(|_| {
            ConnectError::invalid_argument(format!(
                "`{TIMEOUT}` is no number of milliseconds: `{}`",
                text.escape_debug()
            ))
        })?;
        Ok(u64::try_from(milliseconds).ok().filter(|limit| *limit > 0).map(Duration::from_millis))
    }
}

/// Keeps the header for the handler of a stream.
pub(super) async fn keep_for_streams(mut request: Request, next: Next) -> Response {
    let is_none = request.headers().get(&TIMEOUT).is_some_and(|limit| limit.as_bytes() == b"0");
    if (is_stream(request.headers()) || is_none)
        && let Some(limit) = request.headers_mut().remove(&TIMEOUT)
    {
        request.extensions_mut().insert(TimeLimit(limit));
    }
    next.run(request).await
}
