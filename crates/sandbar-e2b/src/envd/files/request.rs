//! Routes of `/files`, and what downloads and uploads share.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    routing::get,
};
use sandbar_core::ErrorCode;

use super::{download, upload};
use crate::{
    auth::{FilesQuery, SessionCaller},
    envd::{Envd, location::Locator},
    rest::{ApiError, ApiResult},
};

/// Path of file contents.
pub(crate) const PATH: &str = "/files";

pub(in crate::envd) fn router(envd: &Arc<Envd>) -> Router {
    let methods = get(download::download).post(upload::upload).fallback(async || {
        let why = "method not allowed: read files with GET, write them with POST, remove them with `filesystem.Filesystem/Remove`";
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, why)
    });
    Router::new()
        .route(PATH, methods)
        .with_state(Arc::clone(envd))
}

/// Returns the authenticated caller of a request.
pub(super) fn caller_of(request: &Request) -> ApiResult<&SessionCaller> {
    let caller = request.extensions().get();
    caller.ok_or_else(|| {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal error: request reached its handler without authentication",
        )
    })
}

/// Returns a locator for the user a request names.
pub(super) async fn locate(
    envd: &Envd,
    caller: &SessionCaller,
    query: &FilesQuery,
) -> ApiResult<Locator> {
    let user = query
        .username
        .as_deref()
        .filter(|name| !name.is_empty())
        .unwrap_or(&caller.note.user);
    envd.locator(caller, user)
        .await
        .map_err(|error| match error.code() {
            ErrorCode::UserNotFound => {
                let what = format!("error looking up user '{user}': user: unknown user {user}");
                ApiError::new(StatusCode::UNAUTHORIZED, what)
            }
            _ => error.into(),
        })
}

/// Returns a header as text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
