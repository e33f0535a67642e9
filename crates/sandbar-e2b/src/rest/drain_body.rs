//! Draining a request body before an early response.

use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use http::{HeaderValue, Request, Response, Version, header};
use tokio::time::timeout;

/// Limit for draining the body of a refused request; larger than any SDK call except file uploads.
const MAX_DRAINED_BYTES: usize = 8 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the rest of a request body before the response is sent, because a client that is still
/// sending does not read it. If unread data is left, an HTTP/1 connection has to be closed; the
/// response says so, since SDKs would otherwise reuse the connection and fail.
pub(crate) async fn drain_body(
    request: Request<Body>,
    mut response: Response<Body>,
) -> Response<Body> {
    let is_multiplexed = request.version() == Version::HTTP_2;
    // A client that sent `Expect: 100-continue` has not sent the body and never will.
    let expects_continue = request.headers().contains_key(header::EXPECT);
    let is_drained = !expects_continue
        && matches!(
            timeout(DRAIN_TIMEOUT, drain(request.into_body())).await,
            Ok(true)
        );
    if !is_drained && !is_multiplexed {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Returns whether the end of the body was reached.
async fn drain(body: Body) -> bool {
    let mut body = body.into_data_stream();
    let mut read = 0;
    while let Some(chunk) = body.next().await {
        let Ok(chunk) = chunk else { return false };
        read += chunk.len();
        if read > MAX_DRAINED_BYTES {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn closes(request: Request<Body>) -> bool {
        drain_body(request, Response::default())
            .await
            .headers()
            .contains_key(header::CONNECTION)
    }

    #[tokio::test]
    async fn connection_is_closed_only_if_unread_data_is_left() {
        let large = || Body::from(vec![0; MAX_DRAINED_BYTES + 1]);
        assert!(!closes(Request::new(Body::from("{}"))).await);
        assert!(closes(Request::new(large())).await);
        assert!(
            closes(
                Request::get("/")
                    .header("expect", "100-continue")
                    .body(Body::empty())
                    .unwrap()
            )
            .await
        );
        let shared = Request::builder()
            .version(Version::HTTP_2)
            .body(large())
            .unwrap();
        assert!(!closes(shared).await);
    }
}
