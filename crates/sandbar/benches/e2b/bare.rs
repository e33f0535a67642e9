//! A server with the answers of a host and no work, as the baseline of HTTP and the client.

use axum::{
    Router,
    http::{StatusCode, header},
    routing::{delete, post},
};
use hyper_util::service::TowerToHyperService;
use sandbar_testing::serve_bare;

use crate::client::frame;

/// Argument that makes this program the server.
pub(crate) const ROLE: &str = "bare-server";

pub(crate) fn serve() {
    let handle = r#"{"templateID":"base","sandboxID":"bare","clientID":"bare","envdVersion":"0.6.4","envdAccessToken":"t"}"#;
    let said: Vec<u8> = [
        frame(0, r#"{"event":{"start":{"pid":42}}}"#),
        frame(0, r#"{"event":{"data":{"stdout":"aGVsbG8K"}}}"#),
        frame(
            0,
            r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#,
        ),
        frame(2, "{}"),
    ]
    .concat();
    let create = async move || {
        (
            StatusCode::CREATED,
            [(header::CONTENT_TYPE, "application/json")],
            handle,
        )
    };
    let start = move || {
        let said = said.clone();
        async move { ([(header::CONTENT_TYPE, "application/connect+json")], said) }
    };
    let router = Router::new()
        .route("/sandboxes", post(create))
        .route("/v2/sandboxes", post(create))
        .route("/process.Process/Start", post(start))
        .route("/sandboxes/{id}", delete(async || StatusCode::NO_CONTENT));
    serve_bare(TowerToHyperService::new(router));
}
