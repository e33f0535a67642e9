//! `/openapi.json`: the OpenAPI description. Needs no token, as it discloses no more than the
//! published `.proto` files.

use std::sync::LazyLock;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use sandbar_proto::openapi_json;

/// ETag of the description.
static TAG: LazyLock<String> = LazyLock::new(|| {
    let text = openapi_json().unwrap_or_default();
    format!("\"{}\"", &blake3::hash(text).to_hex()[..32])
});

/// Returns the description, or 304 when the client has it.
pub(crate) async fn openapi(headers: HeaderMap) -> Response {
    let Ok(text) = openapi_json() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let response_headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::ETAG, TAG.as_str()),
        // Clients may cache it, and must revalidate.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    let known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut known = known
        .flat_map(|tags| tags.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"));
    if known.any(|tag| tag == *TAG || tag == "*") {
        return (StatusCode::NOT_MODIFIED, response_headers).into_response();
    }
    (response_headers, text).into_response()
}
