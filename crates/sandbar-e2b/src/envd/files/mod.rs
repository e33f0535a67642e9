//! Contents of files over plain HTTP.

mod content_type;
mod disposition;
mod download;
mod encoding;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod incoming;
mod kernel;
mod metadata;
mod multipart;
mod query;
mod range;
mod signature;
mod upload;

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    routing::get,
};
use sandbar_core::ErrorCode;

pub(crate) use self::{
    query::FilesQuery,
    signature::{check, is_signed},
};
use super::location::Locator;
use crate::{answer::ControlError, surface::Surface, visitor::Visitor};

/// Where contents are.
pub(crate) const PATH: &str = "/files";

pub(super) fn router(surface: &Arc<Surface>) -> Router {
    let methods = get(download::download).post(upload::upload).fallback(async || {
        let why = "files are read with GET, written with POST and removed with `filesystem.Filesystem/Remove`";
        ControlError::new(StatusCode::METHOD_NOT_ALLOWED, why)
    });
    Router::new().route(PATH, methods).with_state(Arc::clone(surface))
}

/// Whoever makes a request.
fn visitor_of(request: &Request) -> Result<&Visitor, ControlError> {
    let visitor = request.extensions().get();
    visitor.ok_or_else(|| ControlError::new(StatusCode::INTERNAL_SERVER_ERROR, "a request came past the door"))
}

/// Paths as the user means them whom a request names.
async fn locate(surface: &Surface, visitor: &Visitor, query: &FilesQuery) -> Result<Locator, ControlError> {
    let user = query.username.as_deref().filter(|name| !name.is_empty()).unwrap_or(&visitor.note.user);
    surface.locator(visitor, user).await.map_err(|error| match error.code() {
        ErrorCode::UserNotFound => {
            let what = format!("error looking up user '{user}': user: unknown user {user}");
            ControlError::new(StatusCode::UNAUTHORIZED, what)
        }
        _ => error.into(),
    })
}

/// A header that is text.
fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
