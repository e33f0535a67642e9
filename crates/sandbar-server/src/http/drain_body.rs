//! Draining of request bodies.

use std::time::Duration;

use axum::{body::Body, extract::Request, http::header};
use futures::StreamExt as _;
use sandbar_proto::MAX_MESSAGE_BYTES;
use tokio::time::timeout;

/// Bytes read of a rejected request.
const MAX_DRAIN_BYTES: usize = 4 * MAX_MESSAGE_BYTES;
/// Time limit for reading them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the rest of a request that is answered early. A client that sends its whole body before
/// it reads would otherwise get a connection reset in place of the response.
pub(crate) async fn drain_body(request: Request) {
    // A client that sent `expect: 100-continue` has not sent the body yet.
    if !request.headers().contains_key(header::EXPECT) {
        let _ = timeout(DRAIN_TIMEOUT, drain(request.into_body())).await;
    }
}

async fn drain(body: Body) {
    let mut body = body.into_data_stream();
    let mut read = 0;
    while let Some(Ok(bytes)) = body.next().await {
        read += bytes.len();
        if read > MAX_DRAIN_BYTES {
            break;
        }
    }
}
