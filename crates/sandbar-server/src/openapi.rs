//! `/openapi.json`: the API described for programs. Whoever can reach the port may read it, as the `.proto` files are
//! no secret either.

use std::sync::LazyLock;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use sandbar_proto::openapi_json;

/// Tells one description from another: clients ask again by it.
static TAG: LazyLock<String> = LazyLock::new(|| {
    let text = openapi_json().unwrap_or_default();
    format!("\"{}\"", &blake3::hash(text).to_hex()[..32])
});

/// The description, or that it has not changed.
pub(crate) async fn openapi(headers: HeaderMap) -> Response {
    let Ok(text) = openapi_json() else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let about = [
        (header::CONTENT_TYPE, "application/json"),
        (header::ETAG, TAG.as_str()),
        // It may be kept, and has to be asked about.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|tags| tags.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    if known.any(|tag| tag == *TAG || tag == "*") {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, text).into_response()
}
