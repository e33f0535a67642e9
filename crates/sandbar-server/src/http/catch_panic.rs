//! Responses to requests whose handler panicked.

use std::panic::AssertUnwindSafe;

use axum::{extract::Request, middleware::Next, response::Response};
use futures::FutureExt as _;
use sandbar_core::Error;

use crate::rpc::errors::{error_response, failed};

/// Answers a request whose handler panicked with an internal error. The panic hook has already
/// logged the panic.
pub(crate) async fn catch_panic(request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let response = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    response.unwrap_or_else(|_| {
        let error = Error::internal("request handler panicked");
        error_response(failed(error), &headers)
    })
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, middleware, routing::post};
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn handler_panic_is_an_internal_error_to_the_caller() {
        let handler = async || assert!(Request::new(()).headers().contains_key("x-there"), "a bug");
        let router = Router::new()
            .route("/", post(handler))
            .layer(middleware::from_fn(catch_panic));
        let response = router
            .oneshot(Request::post("/").body(Body::empty()).unwrap())
            .await
            .unwrap();
        assert_eq!(response.status(), 500);
    }
}
