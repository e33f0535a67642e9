//! Bodies in JSON.

use axum::{
    body::{Body, to_bytes},
    extract::{FromRequest, Request},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::answer::ControlError;

/// More than any request of an SDK.
const LARGEST: usize = 16 * 1024 * 1024;

/// A body, of a request or of an answer. Fields of a request nobody knows are ignored, as SDKs newer than this host expect
/// it; an empty body is an empty object.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ControlError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ControlError> {
        let refuse = |status, why: String| ControlError::new(status, why);
        let body = to_bytes(request.into_body(), LARGEST).await.map_err(|error| {
            refuse(StatusCode::PAYLOAD_TOO_LARGE, format!("the body could not be read: {error}; send at most 16 MiB"))
        })?;
        let body: &[u8] = if body.trim_ascii().is_empty() { b"{}" } else { &body };
        serde_json::from_slice(body)
            .map(Self)
            .map_err(|error| refuse(StatusCode::BAD_REQUEST, format!("the body is not what this call takes: {error}")))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response(),
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written as JSON");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
