//! Admission of requests to envd: the credential they need, and the sandbox they are for.

use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, request::Parts};

use super::files;
use crate::{
    auth::{Auth, CallSlot, Credential, FilesQuery, NamedBy, SessionCaller},
    protocol::{ACCESS_TOKEN, HEALTH},
    rest::{ApiError, sandbox_not_found},
};

/// Admits a request that names its sandbox. The error is the response.
pub(crate) async fn admit(
    (auth, slot): (&Auth, &dyn CallSlot),
    sandbox: &str,
    named_by: NamedBy,
    head: &Parts,
) -> Result<SessionCaller, Response> {
    if head.uri.path() == files::PATH {
        let query = FilesQuery::of(&head.uri).map_err(ApiError::into_response)?;
        let credential = Credential::SignedUrl {
            query: &query,
            method: &head.method,
        };
        return auth
            .admit(slot, sandbox, (named_by, credential), &head.headers)
            .await;
    }
    // Health needs no token, but a token that is sent has to be the right one.
    let sends_token = head.headers.contains_key(&ACCESS_TOKEN);
    let credential = if head.uri.path() == HEALTH && !sends_token {
        Credential::PortAccess
    } else {
        Credential::AccessToken
    };
    auth.admit(slot, sandbox, (named_by, credential), &head.headers)
        .await
}

/// Admits a request for `/files` that names no sandbox, by its token or signature.
pub(crate) async fn admit_signed(
    (auth, slot): (&Auth, &dyn CallSlot),
    head: &Parts,
) -> Result<SessionCaller, Response> {
    let query = FilesQuery::of(&head.uri).map_err(ApiError::into_response)?;
    let found = auth
        .find_sandbox(&query, &head.method, &head.headers)
        .await
        .map_err(|error| ApiError::from(error).into_response())?;
    let Some(sandbox) = found else {
        let why = if query.signature.is_some() {
            "invalid signature"
        } else {
            "missing signature query parameter"
        };
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, why).into_response());
    };
    // The strict choice: the request has already proved that it knows the token.
    admit((auth, slot), sandbox.as_str(), NamedBy::ForeignName, head).await
}

/// Admits a request that names its sandbox only by its access token. With one URL for all
/// sandboxes, the JavaScript SDK up to 2.19 sends `/health` like this, and the Python SDK up to
/// 2.26 every call after `Sandbox.connect`. An unknown token is reported as that of a sandbox that
/// is gone.
pub(crate) async fn admit_by_token(
    (auth, slot): (&Auth, &dyn CallSlot),
    head: &Parts,
) -> Result<SessionCaller, Response> {
    if !head.headers.contains_key(&ACCESS_TOKEN) {
        let why = "request names no sandbox (send `E2b-Sandbox-Id`, or `X-Access-Token`)";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, why).into_response());
    }
    let found = auth
        .find_sandbox(&FilesQuery::default(), &head.method, &head.headers)
        .await
        .map_err(|error| ApiError::from(error).into_response())?;
    let sandbox = found.ok_or_else(|| sandbox_not_found(""))?;
    admit((auth, slot), sandbox.as_str(), NamedBy::ForeignName, head).await
}
