//! Requests that are answered before they were read.

use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use http::{HeaderValue, Request, Response, Version, header};
use tokio::time::timeout;

/// What is read of a request that is refused. More than an SDK sends in one call, files apart.
const MOST: usize = 8 << 20;
const LONGEST: Duration = Duration::from_secs(5);

/// Reads what is left of a request, so that whoever sends before it listens hears the answer. A connection that something
/// unread is left on is closed afterwards, and the answer says so: SDKs would use it again and fail.
pub(crate) async fn hear_out(request: Request<Body>, mut answer: Response<Body>) -> Response<Body> {
    let is_shared = request.version() == Version::HTTP_2;
    // One who asks before sending has sent nothing yet, and will not.
    let waits = request.headers().contains_key(header::EXPECT);
    let is_read = !waits && matches!(timeout(LONGEST, drain(request.into_body())).await, Ok(true));
    if !is_read && !is_shared {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Whether the end was reached.
async fn drain(body: Body) -> bool {
    let mut body = body.into_data_stream();
    let mut read = 0;
    while let Some(piece) = body.next().await {
        let Ok(piece) = piece else { return false };
        read += piece.len();
        if read > MOST {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn closes(request: Request<Body>) -> bool {
        hear_out(request, Response::default()).await.headers().contains_key(header::CONNECTION)
    }

    #[tokio::test]
    async fn a_connection_is_closed_only_where_something_unread_is_left_on_it_and_the_answer_says_so() {
        let large = || Body::from(vec![0; MOST + 1]);
        assert!(!closes(Request::new(Body::from("{}"))).await);
        assert!(closes(Request::new(large())).await);
        assert!(closes(Request::get("/").header("expect", "100-continue").body(Body::empty()).unwrap()).await);
        let shared = Request::builder().version(Version::HTTP_2).body(large()).unwrap();
        assert!(!closes(shared).await);
    }
}
