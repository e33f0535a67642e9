//! Timeout of a call, from `connect-timeout-ms`.
//!
//! For a stream the header limits the command, which is ended with it, and `0` means no limit. The
//! Connect library treats both differently, so the header is removed before the library sees it.

use std::time::Duration;

use axum::{extract::Request, middleware::Next, response::Response};
use connectrpc::{ConnectError, RequestContext};
use http::{HeaderName, HeaderValue};

use super::abort::is_stream;

const TIMEOUT_HEADER: HeaderName = HeaderName::from_static("connect-timeout-ms");

/// Value of the header, as it was sent.
#[derive(Clone, Debug)]
pub(super) struct TimeLimit(HeaderValue);

impl TimeLimit {
    /// Returns the timeout of the stream a handler works on; `None` if there is none.
    pub(super) fn of(context: &RequestContext) -> Result<Option<Duration>, ConnectError> {
        let Some(Self(value)) = context.extensions().get() else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(value.as_bytes());
        let milliseconds: i64 = text.parse().map_err(|_| {
            ConnectError::invalid_argument(format!(
                "`{TIMEOUT_HEADER}` is not a number of milliseconds: `{}`",
                text.escape_debug()
            ))
        })?;
        Ok(u64::try_from(milliseconds)
            .ok()
            .filter(|limit| *limit > 0)
            .map(Duration::from_millis))
    }
}

/// Middleware that moves the header of a stream to the extensions of the request.
pub(super) async fn keep_for_streams(mut request: Request, next: Next) -> Response {
    let is_none = request
        .headers()
        .get(&TIMEOUT_HEADER)
        .is_some_and(|limit| limit.as_bytes() == b"0");
    if (is_stream(request.headers()) || is_none)
        && let Some(limit) = request.headers_mut().remove(&TIMEOUT_HEADER)
    {
        request.extensions_mut().insert(TimeLimit(limit));
    }
    next.run(request).await
}
