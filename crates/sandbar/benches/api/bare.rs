//! A server without work, as the baseline of HTTP on this machine.

use std::io::Read as _;

use axum::{Router, body::Bytes, http::header, routing::post};
use hyper_util::service::TowerToHyperService;
use sandbar_testing::{BareServer, serve_bare};

/// Argument that makes this program the server.
pub(crate) const ROLE: &str = "bare-server";

/// Starts a server that answers every request with this body.
pub(crate) fn start(body: &[u8]) -> BareServer {
    BareServer::start(&[ROLE, &body.len().to_string()], body)
}

/// Reads the body from stdin and serves it.
pub(crate) fn serve(arguments: &[String]) {
    let mut body = vec![0; arguments[0].parse().unwrap()];
    std::io::stdin().read_exact(&mut body).unwrap();
    let body = Bytes::from(body);
    let answer = move |_: Bytes| {
        let body = body.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], body) }
    };
    serve_bare(TowerToHyperService::new(
        Router::new().fallback(post(answer)),
    ));
}
