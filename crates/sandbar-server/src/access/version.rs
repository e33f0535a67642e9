//! API version header of requests and responses.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue},
    middleware::Next,
    response::Response,
};
use sandbar_core::Result;
use sandbar_proto::{API_VERSION, API_VERSION_HEADER, parse_api_version};

/// Rejects requests for an API version that this server does not speak.
pub(crate) fn check(headers: &HeaderMap) -> Result<()> {
    match headers.get(API_VERSION_HEADER) {
        Some(version) => parse_api_version(version.to_str().unwrap_or_default()).map(drop),
        None => Ok(()),
    }
}

/// Adds the API version of this server to every response.
pub(crate) async fn add_version_header(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Ok(version) = HeaderValue::from_str(&format!("v{API_VERSION}")) {
        response.headers_mut().insert(API_VERSION_HEADER, version);
    }
    response
}
