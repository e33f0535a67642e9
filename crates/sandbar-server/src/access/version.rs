//! The version of the API, in requests and in answers.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue},
    middleware::Next,
    response::Response,
};
use sandbar_core::Result;
use sandbar_proto::{API_VERSION, API_VERSION_HEADER, parse_api_version};

/// Refuses callers of an API this server no longer speaks.
pub(crate) fn check(headers: &HeaderMap) -> Result<()> {
    match headers.get(API_VERSION_HEADER) {
        Some(version) => parse_api_version(version.to_str().unwrap_or_default()).map(drop),
        None => Ok(()),
    }
}

/// Says with every answer which API this server speaks.
pub(crate) async fn tell_version(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Ok(version) = HeaderValue::from_str(&format!("v{API_VERSION}")) {
        response.headers_mut().insert(API_VERSION_HEADER, version);
    }
    response
}
